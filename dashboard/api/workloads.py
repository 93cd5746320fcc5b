"""Workloads: list, submit, try out, stop, start, delete, why it waits, what it printed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard import output, problems
from dashboard.api import conditions, lists, once
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.shapes import LossOut, ReasonOut
from dashboard.api.submission import SubmissionIn
from scheduler.core.vocabulary import Kind, Phase
from scheduler.operations import hypothetical, idle, services, submissions
from scheduler.operations import workloads as operations
from scheduler.operations.refused import NotFound, SubmitRefused
from scheduler.queries import pool_state, remedies, what_if
from scheduler.queries import workloads as queries
from scheduler.queries.phrases import plain

router = Router(tags=["Workloads"])


class WorkloadOut(Schema):
    """One line of the list. Amounts are thousandths of a GPU (mGPU), instants are UTC."""

    id: int
    name: str
    project_id: int
    project: str
    department_id: int
    kind: Kind
    phase: Phase
    priority: int
    preemptible: bool
    request_mgpu: int
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
            request_mgpu=row.asked_mgpu,
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


class RemedyOut(Schema):
    """One change that would make a waiting workload run; each was tried on the scheduler."""

    way: str
    text: str
    value: int | None
    interrupts: int


class ExplanationOut(Schema):
    """Why a workload waits, and what would make it run."""

    reason: ReasonOut | None
    would_run: list[RemedyOut]


class LogOut(Schema):
    """A piece of what a replica printed. Ask on from ``next_offset``."""

    text: str
    offset: int
    next_offset: int
    size_bytes: int
    ended: bool


class PriorityIn(Schema):
    """A new priority; ``preemptible`` null: it follows the priority."""

    priority: int
    preemptible: bool | None = None


@router.get("", response={200: lists.Page[WorkloadOut], **READS}, summary="List workloads")
def list_workloads(request: HttpRequest, query: Query[WorkloadQuery]) -> lists.Page[WorkloadOut]:
    """The newest first unless sorted otherwise."""
    page = queries.list_workloads(
        visible=who(request).visible,
        pool_name=query.pool,
        wanted=queries.WorkloadFilter(
            project_id=query.project_id,
            phase=query.phase or "",
            kind=query.kind or "",
            text=query.q,
            sort=query.sort,
            after=query.after,
            limit=query.limit,
        ),
    )
    return lists.Page[WorkloadOut](
        items=[WorkloadOut.of(row) for row in page.rows],
        next=page.next_after or None,
        total=page.total,
    )


@router.post("", response={201: WorkloadDetailOut, **WRITES}, summary="Submit a workload")
def submit(
    request: HttpRequest,
    response: HttpResponse,
    given: SubmissionIn,
    key: str = param.Header("", alias="Idempotency-Key", max_length=200),
) -> Status[WorkloadDetailOut]:
    """Submitted twice with one Idempotency-Key, it is there once: the second answer is the first's."""
    caller = who(request)
    pool_id = _pool_id(request, given.pool)

    def act() -> int:
        submission = given.submission()
        if submission.kind is Kind.INFERENCE:
            return services.submit_service(
                project_id=given.project_id,
                pool_id=pool_id,
                submission=submission,
                scaling=given.as_scaling(),
                authority=caller.authority,
                now=timezone.now(),
            ).pk
        return operations.submit_workload(
            project_id=given.project_id,
            pool_id=pool_id,
            submission=submission,
            authority=caller.authority,
            now=timezone.now(),
        ).pk

    workload_id = once.act_once(request, key=key, given=given, act=act)
    response["Location"] = f"/api/v1/workloads/{workload_id}"
    return Status(201, WorkloadDetailOut.of_detail(_find(request, workload_id)))


@router.post("/preview", response={200: PreviewOut, **WRITES}, summary="Try a submission out")
def preview(request: HttpRequest, given: SubmissionIn) -> PreviewOut:
    """What the next cycle would do with it. Nothing is written."""
    submission = given.submission()
    pool_id = _pool_id(request, given.pool)
    wrong = submissions.find_problems(submission=submission)
    if wrong:
        raise SubmitRefused(wrong)
    found = what_if.preview_submission(
        visible=who(request).visible,
        pool_id=pool_id,
        asked=hypothetical.as_asked(
            submission=submission,
            scaling=given.as_scaling(),
            project_id=given.project_id,
            now=timezone.now(),
        ),
        now=timezone.now(),
    )
    if found is None:
        raise NotFound("project")
    warnings = submissions.find_warnings(
        submission=submission, project_id=given.project_id, pool_id=pool_id
    )
    return PreviewOut(
        outcome=found.outcome,
        replicas=found.replicas,
        place=found.place,
        borrowed_mgpu=found.borrowed_mgpu,
        interrupts=[LossOut.of(each) for each in found.losses],
        interrupts_others=found.touches_others,
        reason=ReasonOut.of(found.reason),
        warnings=[problems.in_words(each) for each in warnings],
    )


@router.get("/{workload_id}", response={200: WorkloadDetailOut, **READS}, summary="One workload")
def workload(
    request: HttpRequest, response: HttpResponse, workload_id: lists.Id
) -> WorkloadDetailOut:
    """In full, with its timeline. The ETag is that of what can be edited."""
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return WorkloadDetailOut.of_detail(found)


@router.get(
    "/{workload_id}/explanation",
    response={200: ExplanationOut, **READS},
    summary="Why it waits, and what would make it run",
)
def explanation(request: HttpRequest, workload_id: lists.Id) -> ExplanationOut:
    """Each way out was tried on the scheduler's core; this may take some seconds."""
    found = _find(request, workload_id)
    ways = remedies.list_remedies(
        visible=who(request).visible, workload_id=workload_id, now=timezone.now()
    )
    return ExplanationOut(
        reason=ReasonOut.of(found.row.reason),
        would_run=[
            RemedyOut(
                way=each.way, text=plain(each.text), value=each.value, interrupts=each.interrupts
            )
            for each in ways or ()
        ],
    )


@router.get("/{workload_id}/log", response={200: LogOut, **READS}, summary="What it printed")
def log(
    request: HttpRequest,
    workload_id: lists.Id,
    replica: int = param.Query(0, ge=0, le=100_000),
    offset: int | None = param.Query(
        None, ge=0, le=2**62, description="None: the end of the output."
    ),
) -> LogOut:
    """A piece from ``offset``, or the last lines. Follow it by asking on from ``next_offset``."""
    found = _find(request, workload_id)
    of = next((each for each in found.replicas if each.ordinal == replica), None)
    if of is None:
        raise NotFound("replica")
    piece = output.read_piece(of, offset=offset)
    return LogOut(
        text=piece.text,
        offset=piece.offset,
        next_offset=piece.next_offset,
        size_bytes=piece.size_bytes,
        ended=of.ended_at is not None,
    )


@router.post(
    "/{workload_id}/stop", response={202: WorkloadDetailOut, **WRITES}, summary="Stop a workload"
)
def stop(request: HttpRequest, workload_id: lists.Id) -> Status[WorkloadDetailOut]:
    """SIGTERM, its grace, SIGKILL."""
    return Status(202, _act(request, workload_id, operations.stop_workload))


@router.post(
    "/{workload_id}/start", response={202: WorkloadDetailOut, **WRITES}, summary="Start it again"
)
def start(request: HttpRequest, workload_id: lists.Id) -> Status[WorkloadDetailOut]:
    """Let an ended workload wait for its turn again."""
    return Status(202, _act(request, workload_id, operations.start_workload))


@router.post(
    "/{workload_id}/keep", response={200: WorkloadDetailOut, **WRITES}, summary="Keep idle work"
)
def keep(request: HttpRequest, workload_id: lists.Id) -> WorkloadDetailOut:
    """Set its idle clock back."""
    return _act(request, workload_id, idle.keep_workload)


@router.delete("/{workload_id}", response={204: None, **WRITES}, summary="Delete a workload")
def delete(request: HttpRequest, workload_id: lists.Id) -> Status[None]:
    """A running one is stopped first. Its hours stay in the ledger."""
    operations.delete_workload(
        workload_id=workload_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.put(
    "/{workload_id}/priority",
    response={200: WorkloadDetailOut, **WRITES},
    summary="Change its priority",
)
def change_priority(
    request: HttpRequest,
    response: HttpResponse,
    workload_id: lists.Id,
    given: PriorityIn,
    if_match: str = param.Header("", alias="If-Match", max_length=200),
) -> WorkloadDetailOut:
    """With If-Match it is refused (412) where someone else has changed it since you read it."""
    conditions.require_match(_etag(_find(request, workload_id)), given=if_match)
    operations.change_priority(
        workload_id=workload_id,
        priority=given.priority,
        preemptible=given.preemptible,
        authority=who(request).authority,
        now=timezone.now(),
    )
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return WorkloadDetailOut.of_detail(found)


def _find(request: HttpRequest, workload_id: int) -> queries.WorkloadDetail:
    found = queries.read_workload(visible=who(request).visible, workload_id=workload_id)
    if found is None:
        raise NotFound("workload")
    return found


def _act(
    request: HttpRequest, workload_id: int, operation: Callable[..., object]
) -> WorkloadDetailOut:
    operation(workload_id=workload_id, authority=who(request).authority, now=timezone.now())
    return WorkloadDetailOut.of_detail(_find(request, workload_id))


def _pool_id(request: HttpRequest, name: str) -> int:
    pools = pool_state.list_pools(visible=who(request).visible)
    found = [pool for pool in pools if pool.name == name or not name]
    if not found:
        raise NotFound("node pool")
    return found[0].id


def _etag(found: queries.WorkloadDetail) -> str:
    return conditions.etag(found.row.priority, found.row.preemptible, found.preemptible_set)
