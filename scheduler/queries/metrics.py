"""What a scrape of metrics tells, as a reader may see it: sums by department, project and pool alone.

No label has a value that grows with the work: neither workloads nor people nor nodes are named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, Max, Sum

from scheduler import models
from scheduler.core import latencies
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.queries.pool_state import PoolState, list_pools, load_pool_state
from scheduler.queries.queues import QueueRow, make_queue_tree
from scheduler.queries.visibility import Visibility

#: Latencies are those of the last minutes.
LATENCY_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """One department (``project`` empty) or project in one pool."""

    pool: str
    department: str
    project: str
    row: QueueRow
    phases: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    longest_wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """Sums over one whole pool, for whom sees the whole cluster."""

    pool: str
    capacity_mgpu: int
    held_mgpu: int
    nodes: int
    nodes_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TickFigures:
    """How the scheduler goes."""

    cycle: int
    last_ms: int
    age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFigures:
    """What the gateway served of one project's services."""

    department: str
    project: str
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures:
    """How long answers of one project's services took lately, by percentile, in milliseconds."""

    department: str
    project: str
    first_ms: Mapping[int, int]
    whole_ms: Mapping[int, int]


def read_queues(
    *, visible: Visibility, now: datetime
) -> tuple[tuple[PoolFigures, ...], tuple[QueueFigures, ...]]:
    """Return pools, and what each unit holds and waits for. A fixed number of queries a pool."""
    pools: list[PoolFigures] = []
    queues: list[QueueFigures] = []
    for pool in list_pools(visible=visible):
        state = load_pool_state(visible=visible, pool=pool)
        if state is None:
            continue
        if visible.cluster:
            pools.append(_pool(state))
        queues.extend(_queues(state, now))
    return tuple(pools), tuple(queues)


def read_tick(*, now: datetime) -> TickFigures:
    """Return how long the last cycle took and how long ago it ended. One query."""
    cluster = models.Cluster.objects.one()
    ended = cluster.last_cycle_at
    return TickFigures(
        cycle=cluster.cycle,
        last_ms=cluster.last_cycle_ms,
        age_s=None if ended is None else max(0.0, (now - ended).total_seconds()),
    )


def count_decisions(*, after_id: int) -> tuple[dict[tuple[int, int, str], int], int]:
    """Return how many decisions there are after one, by (project, pool, verb), and the last one's id."""
    rows = models.Decision.objects.filter(
        id__gt=after_id, project__isnull=False, pool__isnull=False
    )
    last = rows.aggregate(last=Max("id"))["last"]
    if last is None:
        return {}, after_id
    counted = rows.filter(id__lte=last).values_list("project_id", "pool_id", "verb")
    found = counted.annotate(count=Count("id")).order_by()
    return {(project, pool, verb): count for project, pool, verb, count in found}, last


def read_places(*, visible: Visibility) -> tuple[dict[int, tuple[str, str]], dict[int, str]]:
    """Return (department, project) by project, and pools' names by id, as far as a reader sees them."""
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None)
    named = projects.values_list("pk", "department__name", "name")
    pools = {pool.id: pool.name for pool in list_pools(visible=visible)}
    return {pk: (department, name) for pk, department, name in named}, pools


def read_gateway(*, visible: Visibility) -> tuple[GatewayFigures, ...]:
    """Return what was served so far, by project. One query."""
    rows = models.GatewayUsage.objects.filter(
        visible.projects(prefix="project__"), project__deleted_at=None
    )
    sums = rows.values_list("project__department__name", "project__name").annotate(
        *(Sum(name) for name in ("requests", "errors", "input_tokens", "output_tokens"))
    )
    return tuple(
        GatewayFigures(
            department=department,
            project=project,
            requests=requests,
            errors=errors,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
        for department, project, requests, errors, input_tokens, output_tokens in sums.order_by()
    )


def read_latencies(
    *, visible: Visibility, now: datetime, percents: Sequence[int]
) -> tuple[LatencyFigures, ...]:
    """Return latencies of the last minutes, by project. One query."""
    rows = models.ServiceLatency.objects.filter(
        visible.projects(prefix="workload__project__"), hourly=False, at__gte=now - LATENCY_WINDOW
    ).select_related("workload__project__department")
    grouped: dict[tuple[str, str], list[models.ServiceLatency]] = defaultdict(list)
    for row in rows:
        project = row.workload.project
        grouped[project.department.name, project.name].append(row)
    return tuple(
        LatencyFigures(
            department=department,
            project=project,
            first_ms=_percentiles([row.first for row in found], percents),
            whole_ms=_percentiles([row.whole for row in found], percents),
        )
        for (department, project), found in sorted(grouped.items())
    )


def read_services(*, visible: Visibility) -> dict[int, tuple[str, str]]:
    """Return (department, project) of each living service by its workload. One query."""
    rows = models.InferenceService.objects.filter(
        visible.projects(prefix="workload__project__"), workload__deleted_at=None
    )
    named = rows.values_list(
        "workload_id", "workload__project__department__name", "workload__project__name"
    )
    return {pk: (department, project) for pk, department, project in named}


def _percentiles(counted: Sequence[object], percents: Sequence[int]) -> dict[int, int]:
    counts = latencies.joined(*(latencies.counts_of(one) for one in counted))  # type: ignore[arg-type]
    found = {one: latencies.percentile_ms(counts=counts, percent=one) for one in percents}
    return {percent: ms for percent, ms in found.items() if ms is not None}


def _pool(state: PoolState) -> PoolFigures:
    devices = [device for node in state.nodes for device in node.devices]
    return PoolFigures(
        pool=state.pool.name,
        capacity_mgpu=sum(WHOLE_GPU_MGPU for device in devices if device.healthy),
        held_mgpu=sum(device.allocated_mgpu for device in devices),
        nodes=len(state.nodes),
        nodes_lost=sum(node.lost for node in state.nodes),
    )


def _queues(state: PoolState, now: datetime) -> list[QueueFigures]:
    phases: dict[int, Counter[str]] = defaultdict(Counter)
    reasons: dict[int, Counter[str]] = defaultdict(Counter)
    waits: dict[int, float] = defaultdict(float)
    for work in state.workloads.values():
        phases[work.project_id][work.phase.value] += 1
        if work.waits:
            reasons[work.project_id][work.reason_code or "new"] += 1
            waited_s = (now - work.phase_since).total_seconds()
            waits[work.project_id] = max(waits[work.project_id], waited_s)
    found: list[QueueFigures] = []
    department = ""
    for row in make_queue_tree(state).rows:
        if row.is_department:
            department = row.name
            if row.known:
                found.append(
                    QueueFigures(pool=state.pool.name, department=row.name, project="", row=row)
                )
            continue
        found.append(
            QueueFigures(
                pool=state.pool.name,
                department=department,
                project=row.name,
                row=row,
                phases=phases[row.id],
                reasons=reasons[row.id],
                longest_wait_s=waits[row.id],
            )
        )
    return found
