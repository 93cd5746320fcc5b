"""When waiting work may start, where it stands in its line, and how good such ranges were."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.core import estimate as core
from scheduler.core.instants import from_us, to_us
from scheduler.core.vocabulary import Kind, Phase
from scheduler.queries import snapshots
from scheduler.queries.progress import progress_of
from scheduler.queries.visibility import SYSTEM, Visibility

#: Below so many past runs nothing is said of how long others take.
LEAST_SAMPLES = 10
SAMPLES = 30
#: Ranges on record that the share of hits is told of.
JUDGED = 200
#: A pool with more workloads than this is not simulated for one reader.
MOST_WORKLOADS = 400
_BY_ITSELF = frozenset({Kind.TRAINING, Kind.DISTRIBUTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A range for a start, or why there is none: ``few_samples``, ``no_end``, ``too_many``, or ``hidden``
    where nothing is told of what others hold.

    ``ahead_in_department`` None: not told, since the reader does not see the department. Counts are of
    what the reader sees.
    """

    position: int
    waiting: int
    ahead_in_department: int | None
    soonest: datetime | None
    latest: datetime | None
    why_not: str
    samples: int
    #: Of the ranges on record: how many there are, and how many held the start.
    judged: int
    hits: int


def read_estimate(*, visible: Visibility, workload_id: int, now: datetime) -> Estimate | None:
    """Return what can be said of a waiting workload's start; None: no such one waits for the reader."""
    workload = (
        models.Workload.objects.filter(
            visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
        )
        .select_related("project")
        .first()
    )
    if workload is None or Phase(workload.phase) is not Phase.PENDING or workload.stop_requested:
        return None
    loaded = snapshots.load_pool(pool_id=workload.pool_id)
    place = core.find_place(loaded.snapshot, workload_id)
    if place is None:
        return None
    found, why_not = None, "hidden"  # a range rests on how long others run on
    if visible.tells_others:
        found, why_not = estimate_of(loaded, workload_id, now)
    past = _past_runs(workload.pool_id, visible)
    own = past.get((workload.project_id, workload.kind), ())
    samples = len(own) or len(past.get((0, ""), ()))
    judged, hits = _record(workload.pool_id, visible)
    sees = visible.sees_department(workload.project.department_id)
    return Estimate(
        position=place.position,
        waiting=place.waiting,
        ahead_in_department=place.ahead_in_department if sees else None,
        soonest=None if found is None else from_us(found.soonest_us),
        latest=None if found is None else from_us(found.latest_us),
        why_not=why_not,
        samples=samples,
        judged=judged,
        hits=hits,
    )


def estimate_of(
    loaded: snapshots.Loaded, workload_id: int, now: datetime, *, most_ends: int = core.MOST_ENDS
) -> tuple[core.StartRange | None, str]:
    """Return the range, else why there is none."""
    if len(loaded.snapshot.workloads) > MOST_WORKLOADS:
        return None, "too_many"
    ends = _ends(loaded, _past_runs(loaded.pool.pk, SYSTEM), now)
    found = core.find_range(
        snapshot=loaded.snapshot,
        policy=loaded.policy,
        now_us=to_us(now),
        workload_id=workload_id,
        ends=ends,
        most_ends=most_ends,
    )
    if found is not None:
        return found, ""
    guessed = any(
        each.kind in _BY_ITSELF and ends[each.id].latest_us is None
        for each in loaded.snapshot.workloads
        if each.replicas
    )
    return None, "few_samples" if guessed else "no_end"


def _ends(
    loaded: snapshots.Loaded, past: dict[tuple[int, str], list[int]], now: datetime
) -> dict[int, core.Ends]:
    said = models.WorkloadProgress.objects.filter(
        workload__in=[each.id for each in loaded.snapshot.workloads if each.replicas],
        total__isnull=False,
    ).values_list("workload_id", flat=True)
    reporting = frozenset(said)
    return {
        each.id: _end_of(loaded.workloads[each.id], past, reporting, now)
        for each in loaded.snapshot.workloads
    }


def _end_of(
    row: models.Workload,
    past: dict[tuple[int, str], list[int]],
    reporting: frozenset[int],
    now: datetime,
) -> core.Ends:
    """Return how long a workload runs on: by its own word, else by past runs; its time limit bounds both."""
    ran_us = 0 if row.running_since is None else max(0, to_us(now) - to_us(row.running_since))
    soonest: int | None = None
    latest: int | None = None
    if row.pk in reporting and (left_s := progress_of(row).left_s) is not None:
        soonest, latest = left_s * 800_000, left_s * 1_250_000
    elif Kind(row.kind) in _BY_ITSELF:
        runs = past.get((row.project_id, row.kind)) or past.get((0, ""))
        if runs and len(runs) >= LEAST_SAMPLES:
            soonest = max(0, runs[len(runs) // 4] - ran_us)
            bounds = (runs[(3 * len(runs)) // 4], runs[-1])
            latest = next((each for each in bounds if each > ran_us), 2 * ran_us) - ran_us
    if row.runtime_limit_s is not None:
        limit_us = max(0, row.runtime_limit_s * 1_000_000 - ran_us)
        soonest = limit_us if soonest is None else min(soonest, limit_us)
        latest = limit_us if latest is None else min(latest, limit_us)
    return core.Ends(soonest_us=soonest, latest_us=latest)


def _past_runs(pool_id: int, visible: Visibility) -> dict[tuple[int, str], list[int]]:
    """Return how long finished work ran, in order, by project and kind; of all under (0, "").

    A project and kind with too few runs is left out.
    """
    rows = models.Replica.objects.filter(
        visible.projects(prefix="workload__project__"),
        workload__pool=pool_id,
        workload__phase=Phase.COMPLETED,
        workload__kind__in=[each.value for each in _BY_ITSELF],
        ordinal=0,
        running_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("-ended_at")
    ran: dict[tuple[int, int, str], int] = defaultdict(int)
    names = ("workload_id", "workload__project_id", "workload__kind", "running_at", "ended_at")
    for workload_id, project_id, kind, running_at, ended_at in rows.values_list(*names)[:1_000]:
        if running_at is not None and ended_at is not None:
            ran[workload_id, project_id, kind] += to_us(ended_at) - to_us(running_at)
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for (_workload_id, project_id, kind), took_us in ran.items():
        for key in ((project_id, kind), (0, "")):
            if len(found[key]) < SAMPLES:
                found[key].append(took_us)
    return {
        key: sorted(took)
        for key, took in found.items()
        if len(took) >= LEAST_SAMPLES or key == (0, "")
    }


def _record(pool_id: int, visible: Visibility) -> tuple[int, int]:
    """Return how many ranges on record can be judged, and how many of them held the start."""
    rows = (
        models.StartEstimate.objects.filter(
            visible.projects(prefix="workload__project__"),
            workload__pool=pool_id,
            started_at__isnull=False,
            soonest__isnull=False,
        )
        .order_by("-pk")
        .values_list("soonest", "latest", "started_at")[:JUDGED]
    )
    hits = sum(
        soonest <= started <= latest
        for soonest, latest, started in rows
        if soonest is not None and latest is not None and started is not None
    )
    return len(rows), hits
