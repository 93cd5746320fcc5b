"""What the endpoints about workloads take and answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ninja import Schema
from pydantic import Field

from dashboard.api import lists
from dashboard.api.shapes import LossOut, ReasonOut
from dashboard.api.submission import Strict
from scheduler.core.vocabulary import Kind, Phase
from scheduler.queries import what_if
from scheduler.queries import workloads as queries
from scheduler.queries.phrases import plain
from scheduler.queries.remedies import RemedyRow


class WorkloadOut(Schema):
    """One line of the list. Amounts are thousandths of a GPU (mGPU), instants are UTC.

    ``asked_mgpu`` is what all replicas together ask for, ``held_mgpu`` what they hold.
    """

    id: int
    name: str
    project_id: int
    project: str
    department_id: int
    kind: Kind
    phase: Phase
    priority: int
    preemptible: bool
    asked_mgpu: int
    gpu_memory_mib: int | None
    held_mgpu: int
    place: str
    utilization_permille: int | None
    idle: bool
    since: datetime
    submitted_at: datetime
    reason: ReasonOut | None

    @staticmethod
    def of(row: queries.WorkloadRow) -> WorkloadOut:
        """Return a row as it is answered."""
        return WorkloadOut(
            id=row.id,
            name=row.name,
            project_id=row.project_id,
            project=row.project_name,
            department_id=row.department_id,
            kind=Kind(row.kind),
            phase=Phase(row.phase),
            priority=row.priority,
            preemptible=row.preemptible,
            asked_mgpu=row.asked_mgpu,
            gpu_memory_mib=row.gpu_memory_mib,
            held_mgpu=row.held_mgpu,
            place=row.place,
            utilization_permille=row.utilization_permille,
            idle=row.idle,
            since=row.since,
            submitted_at=row.submitted_at,
            reason=ReasonOut.of(row.reason),
        )


class ReplicaOut(Schema):
    """One living replica, or the last of a workload that has ended."""

    id: int
    ordinal: int
    attempt: int
    phase: str
    node_name: str
    place: str
    mgpu: int
    pid: int | None
    utilization_permille: int | None
    memory_used_mib: int | None
    booked_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    exit_signal: int | None


class TimelineOut(Schema):
    """One thing that happened to the workload."""

    at: datetime
    code: str
    text: str
    decision_id: int | None


class WorkloadDetailOut(WorkloadOut):
    """One workload in full."""

    devices: int
    min_replicas: int
    max_replicas: int
    command: list[str]
    grace_s: int
    submitted_by: str
    attempts: int
    interruptions: int
    failures: int
    max_attempts: int
    exit_code: int | None
    failure: str
    checkpoint: dict[str, object]
    checkpoint_at: datetime | None
    stop_requested: bool
    replicas: list[ReplicaOut]
    timeline: list[TimelineOut]

    @staticmethod
    def of_detail(found: queries.WorkloadDetail) -> WorkloadDetailOut:
        """Return a workload as it is answered."""
        return WorkloadDetailOut(
            **WorkloadOut.of(found.row).model_dump(),
            devices=found.devices,
            min_replicas=found.min_replicas,
            max_replicas=found.max_replicas,
            command=list(found.command),
            grace_s=found.grace_s,
            submitted_by=found.submitted_by,
            attempts=found.attempts,
            interruptions=found.interruptions,
            failures=found.failures,
            max_attempts=found.max_attempts,
            exit_code=found.exit_code,
            failure=found.failure,
            checkpoint=dict(found.checkpoint),
            checkpoint_at=found.checkpoint_at,
            stop_requested=found.stop_requested,
            replicas=[ReplicaOut.from_orm(each) for each in found.replicas],
            timeline=[
                TimelineOut(
                    at=each.at,
                    code=each.code,
                    text=plain(each.text),
                    decision_id=each.decision_id,
                )
                for each in found.timeline
            ],
        )


class WorkloadQuery(Schema):
    """What of the list is asked for."""

    pool: str = ""
    project_id: lists.Id | None = None
    phase: Phase | None = None
    kind: Kind | None = None
    q: str = Field("", max_length=100, description="Part of a workload's or project's name.")
    sort: queries.Sort = Field(queries.Sort.NEWEST, description="A minus means descending.")
    after: str = Field("", max_length=300)
    limit: int = Field(50, ge=1, le=lists.MOST)


class PreviewOut(Schema):
    """What the next cycle would do with a submission, found by the scheduler itself."""

    outcome: what_if.Outcome
    replicas: int
    place: str
    borrowed_mgpu: int
    interrupts: list[LossOut]
    interrupts_others: bool
    reason: ReasonOut | None
    warnings: list[str]

    @staticmethod
    def of(found: what_if.SubmissionPreview, *, warnings: Sequence[str]) -> PreviewOut:
        """Return a preview as it is answered."""
        return PreviewOut(
            outcome=found.outcome,
            replicas=found.replicas,
            place=found.place,
            borrowed_mgpu=found.borrowed_mgpu,
            interrupts=[LossOut.of(each) for each in found.losses],
            interrupts_others=found.touches_others,
            reason=ReasonOut.of(found.reason),
            warnings=list(warnings),
        )


class RemedyOut(Schema):
    """One change that would make a waiting workload run; each was tried on the scheduler.

    ``interrupts``: how many other workloads; null where the caller does not see the whole cluster.
    """

    way: str
    text: str
    value: int | None
    interrupts_others: bool
    interrupts: int | None

    @staticmethod
    def of(row: RemedyRow) -> RemedyOut:
        """Return a way out as it is answered."""
        return RemedyOut(
            way=row.way,
            text=plain(row.text),
            value=row.value,
            interrupts_others=row.interrupts_others,
            interrupts=row.interrupts,
        )


class EstimateOut(Schema):
    """Where it stands in its project's line, and a range for its start.

    Without an honest range ``soonest`` and ``latest`` are null and ``why_not`` says why: ``few_samples``
    (fewer than ten past runs to go by), ``no_end`` (it hangs on work without a known end), ``too_many``
    (the pool is too large to try it out), ``hidden`` (it would tell what others hold, which the caller
    may not see). ``ahead_in_department`` is null where the caller does not see the department. Of
    ``judged`` earlier ranges ``hits`` held the start that came.
    """

    position: int
    waiting: int
    ahead_in_department: int | None
    soonest: datetime | None
    latest: datetime | None
    why_not: str
    samples: int
    judged: int
    hits: int


class ExplanationOut(Schema):
    """Why a workload waits, what would make it run, and when it may start; null where it does not wait."""

    reason: ReasonOut | None
    would_run: list[RemedyOut]
    estimate: EstimateOut | None


class TimeOut(Schema):
    """What follows this offset came at this instant or later."""

    offset: int
    at: datetime


class LogOut(Schema):
    """A piece of what a replica printed in one run. Ask on from ``next_offset``.

    Offsets count bytes. Between ``cut_from`` and ``cut_to`` nothing is kept. ``ended``: nothing more comes.
    """

    text: str
    offset: int
    next_offset: int
    size_bytes: int
    ended: bool
    attempt: int
    cut_from: int
    cut_to: int
    times: list[TimeOut]


class PriorityIn(Strict):
    """A new priority; ``preemptible`` null: it follows the priority."""

    priority: int
    preemptible: bool | None = None
