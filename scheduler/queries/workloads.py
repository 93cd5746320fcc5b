"""Workloads as pages show them: the table with its filters, and one workload in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, Kind, Phase, ReplicaPhase
from scheduler.queries import decision_words, keyset, reasons, timeline, waiting
from scheduler.queries.places import places_of
from scheduler.queries.pool_state import (
    PoolState,
    ReplicaState,
    asked_mgpu,
    find_pool,
    is_asleep,
    load_pool_state,
)
from scheduler.queries.reasons_for import why_for
from scheduler.queries.services import running_of
from scheduler.queries.visibility import Visibility

PAGE_SIZE = 50


class Sort(StrEnum):
    """Orders of the table; a minus means descending. Equal ones go by id."""

    NEWEST = "-id"
    OLDEST = "id"
    NAME = "name"
    NAME_DOWN = "-name"
    PRIORITY = "priority"
    PRIORITY_DOWN = "-priority"
    SUBMITTED = "submitted_at"
    SUBMITTED_DOWN = "-submitted_at"
    STATE = "phase"
    STATE_DOWN = "-phase"
    KIND = "kind"
    KIND_DOWN = "-kind"
    ASKED = "request_mgpu"
    ASKED_DOWN = "-request_mgpu"
    SINCE = "phase_since"
    SINCE_DOWN = "-phase_since"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFilter:
    """What of the table is asked for. ``after``: where the page before ended."""

    project_id: int | None = None
    phase: str = ""
    kind: str = ""
    text: str = ""
    #: Only what holds something and leaves it idle now.
    idle: bool = False
    #: Only what this person submitted; empty: anyone's.
    owner: str = ""
    sort: Sort = Sort.NEWEST
    after: str = ""
    limit: int = PAGE_SIZE
    #: Only these; empty: all.
    ids: tuple[int, ...] = ()
    #: Only what has not ended.
    living: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    """One line of the table."""

    id: int
    name: str
    project_id: int
    department_id: int
    project_name: str
    color: int
    kind: str
    phase: str
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
    submitted_by: str
    reason: reasons.Waiting | None
    checkpoint: str
    #: Of a service: running against the range, "2/1-3"; empty for others.
    replicas: str
    #: A service at zero: it waits for requests, not for a place.
    asleep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPage:
    """One page of the table, with how many there are in all."""

    rows: tuple[WorkloadRow, ...]
    total: int
    #: Where it ends; empty on the last page.
    next_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
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
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What a resumed attempt said, beside the checkpoint that it came from."""

    equal: bool
    said: Mapping[str, object]
    checkpoint: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDetail:
    """One workload in full."""

    row: WorkloadRow
    project_id: int
    department_id: int
    devices: int
    min_replicas: int
    max_replicas: int
    command: tuple[str, ...]
    grace_s: int
    #: Whether it was set by hand that it may, or may not, be interrupted.
    preemptible_set: bool
    submitted_by: str
    attempts: int
    interruptions: int
    failures: int
    max_attempts: int
    exit_code: int | None
    failure: str
    checkpoint: Mapping[str, object]
    checkpoint_at: datetime | None
    resumed: Resumed | None
    warns_no_checkpoint: bool
    stop_requested: bool
    #: Of what listens: where it is asked whether it is ready, and for how long. Empty: it is not asked.
    readiness_path: str
    start_timeout_s: int
    replicas: tuple[ReplicaRow, ...]
    timeline: tuple[timeline.TimelineRow, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChoice:
    """A project that a reader may choose in a filter or a form."""

    id: int
    name: str
    department_id: int
    department_name: str


def list_projects(*, visible: Visibility) -> tuple[ProjectChoice, ...]:
    """Return the reader's projects by name."""
    rows = models.Project.objects.filter(visible.projects(), deleted_at__isnull=True)
    return tuple(
        ProjectChoice(
            id=row.id,
            name=row.name,
            department_id=row.department_id,
            department_name=row.department.name,
        )
        for row in rows.select_related("department").order_by("name")
    )


def list_workloads(
    *, visible: Visibility, pool_name: str = "", wanted: WorkloadFilter
) -> WorkloadPage:
    """Return a page of workloads, the newest first unless sorted otherwise.

    What it costs grows with the page, not with the table.
    """
    rows = _filtered(visible, wanted)
    pool = find_pool(visible=visible, pool_name=pool_name)
    if pool is not None:
        rows = rows.filter(pool_id=pool.id)
    total = rows.count()
    found, next_after = keyset.page(
        rows.select_related("project__department"),
        sort=wanted.sort,
        after=wanted.after,
        limit=wanted.limit,
    )
    state = load_pool_state(visible=visible, pool=pool, only=frozenset(row.pk for row in found))
    return WorkloadPage(
        rows=tuple(_row(row, state, visible) for row in found), total=total, next_after=next_after
    )


def list_replicas(*, workload_id: int) -> tuple[ReplicaRow, ...]:
    """Return a workload's living replicas; the caller has asked whether the reader sees it. Two queries."""
    row = models.Workload.objects.get(pk=workload_id)
    return _replicas(row, ended=False)


def read_workload(*, visible: Visibility, workload_id: int) -> WorkloadDetail | None:
    """Return one workload, or None where there is none for the reader."""
    row = (
        models.Workload.objects.filter(
            visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
        )
        .select_related("project__department", "pool")
        .first()
    )
    if row is None:
        return None
    state = load_pool_state(visible=visible, pool_name=row.pool.name, only=frozenset({row.pk}))
    ended = Phase(row.phase) in (Phase.COMPLETED, Phase.FAILED, Phase.STOPPED, Phase.PENDING)
    return WorkloadDetail(
        row=_row(row, state, visible),
        project_id=row.project_id,
        department_id=row.project.department_id,
        devices=row.devices,
        min_replicas=row.min_replicas,
        max_replicas=row.max_replicas,
        command=tuple(str(part) for part in row.command),
        grace_s=row.grace_s,
        preemptible_set=row.preemptible_set,
        submitted_by=row.submitted_by,
        attempts=row.attempts,
        interruptions=row.interruptions,
        failures=row.failures,
        max_attempts=row.max_attempts,
        exit_code=row.exit_code,
        failure=str(row.failure.get("message") or ""),
        checkpoint=row.checkpoint,
        checkpoint_at=row.checkpoint_at,
        resumed=_resumed(row),
        warns_no_checkpoint=_warns(row),
        stop_requested=row.stop_requested,
        readiness_path=row.readiness_path or ("/health" if row.kind == Kind.INFERENCE else ""),
        start_timeout_s=row.start_timeout_s,
        replicas=_replicas(row, ended=ended),
        timeline=timeline.list_timeline(visible=visible, workload=row),
    )


def _filtered(visible: Visibility, wanted: WorkloadFilter) -> QuerySet[models.Workload]:
    # No join: which rows they are, and how many, is then read out of an index alone.
    seen = models.Project.objects.filter(visible.projects())
    rows = models.Workload.objects.filter(project__in=seen, deleted_at__isnull=True)
    if wanted.ids:
        rows = rows.filter(pk__in=wanted.ids)
    if wanted.living:
        rows = rows.exclude(phase__in=END_PHASES)
    if wanted.project_id is not None:
        rows = rows.filter(project_id=wanted.project_id)
    if wanted.phase:
        rows = rows.filter(phase=wanted.phase)
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    if wanted.owner:
        rows = rows.filter(submitted_by=wanted.owner)
    if wanted.idle:
        living = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
        rows = rows.filter(pk__in=living.filter(idle=True).values("workload_id"))
    if wanted.text:
        rows = rows.filter(Q(name__icontains=wanted.text) | Q(project__name__icontains=wanted.text))
    return rows


def _row(row: models.Workload, state: PoolState | None, visible: Visibility) -> WorkloadRow:
    replicas = [r for r in state.replicas if r.workload_id == row.id] if state else []
    loads = [r.utilization_permille for r in replicas if r.utilization_permille is not None]
    return WorkloadRow(
        id=row.id,
        name=row.name,
        project_id=row.project_id,
        department_id=row.project.department_id,
        project_name=row.project.name,
        color=row.project.color,
        kind=row.kind,
        phase=row.phase,
        priority=row.priority,
        preemptible=row.preemptible,
        asked_mgpu=asked_mgpu(row),
        gpu_memory_mib=row.gpu_memory_mib,
        held_mgpu=sum(r.mgpu for r in replicas),
        place="; ".join(places_of(state, replicas)) if state else "",
        utilization_permille=sum(loads) // len(loads) if loads else None,
        idle=bool(replicas) and all(r.idle for r in replicas),
        since=row.phase_since,
        submitted_at=row.submitted_at,
        submitted_by=row.submitted_by,
        reason=_reason(row, state, visible),
        checkpoint=waiting.mark_in_words(row.checkpoint),
        replicas=_running_of(row, replicas),
        asleep=is_asleep(row),
    )


def _running_of(row: models.Workload, replicas: Sequence[ReplicaState]) -> str:
    if row.kind != Kind.INFERENCE:
        return ""
    running = sum(replica.phase == ReplicaPhase.RUNNING for replica in replicas)
    return running_of(running, row.min_replicas, row.max_replicas)


def _reason(
    row: models.Workload, state: PoolState | None, visible: Visibility
) -> reasons.Waiting | None:
    if row.phase != Phase.PENDING or is_asleep(row):
        return None
    known = state.workloads.get(row.id) if state else None
    if state is not None and known is not None:
        return waiting.why_it_waits(state, known)
    return why_for(visible=visible, code=row.reason_code, numbers=row.reason, project=row.project)


def _resumed(row: models.Workload) -> Resumed | None:
    if not row.resumed:
        return None
    checkpoint = row.resumed.get("checkpoint")
    said = {k: v for k, v in row.resumed.items() if k not in ("equal", "attempt", "checkpoint")}
    return Resumed(
        equal=bool(row.resumed.get("equal")),
        said=said,
        checkpoint=checkpoint if isinstance(checkpoint, dict) else {},
    )


def _warns(row: models.Workload) -> bool:
    """Test whether it can be interrupted and has nothing saved: all its work would be lost."""
    trains = row.kind in (Kind.TRAINING, Kind.DISTRIBUTED)
    return trains and row.preemptible and row.phase == Phase.RUNNING and not row.checkpoint


def _replicas(row: models.Workload, *, ended: bool) -> tuple[ReplicaRow, ...]:
    rows = models.Replica.objects.filter(workload=row).select_related("node")
    rows = rows.prefetch_related(models.with_devices())
    if ended:
        chosen = list(rows.filter(attempt=row.attempts).order_by("ordinal"))
    else:
        chosen = list(rows.exclude(phase=ReplicaPhase.ENDED).order_by("ordinal"))
    return tuple(
        ReplicaRow(
            id=replica.id,
            ordinal=replica.ordinal,
            attempt=replica.attempt,
            phase=replica.phase,
            node_name=replica.node.name,
            place=decision_words.place_name(
                replica.node.name, sorted(h.device.index for h in replica.holdings.all())
            ),
            mgpu=replica.mgpu,
            pid=replica.pid,
            utilization_permille=replica.utilization_permille,
            memory_used_mib=replica.memory_used_mib,
            booked_at=replica.booked_at,
            ended_at=replica.ended_at,
            exit_code=replica.exit_code,
            exit_signal=replica.exit_signal,
            engine=replica.node.engine,
        )
        for replica in chosen
    )
