"""The last 24 hours of a pool for one reader: held, idle and borrowed GPU, what waits, and reclaims.

Exact step functions out of the ledger's intervals, thinned to a bounded number of points that keeps
the least and the greatest of each stretch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.queries.visibility import Visibility
from scheduler.queries.waits import read_waits

WINDOW = timedelta(hours=24)
MAX_POINTS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPoint:
    """What was true from ``at_us`` on."""

    at_us: int
    held_mgpu: int
    idle_mgpu: int
    borrowed_mgpu: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """``from_us`` is the start of the window, or of the records where they are younger."""

    from_us: int
    to_us: int
    capacity_mgpu: int
    points: tuple[DayPoint, ...]
    #: Reclaims: (time, decision id).
    reclaims: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Totals:
    """Running sums while the changes are walked in order of time."""

    held: dict[int, int]
    idle_mgpu: int
    quota: dict[int, int]
    waiting: int = 0

    def apply(self, what: str, project_id: int, change: int) -> None:
        if what == "held":
            self.held[project_id] += change
        elif what == "idle":
            self.idle_mgpu += change
        elif what == "waiting":
            self.waiting += change
        else:
            self.quota[project_id] += change

    def point(self, at_us: int) -> DayPoint:
        return DayPoint(
            at_us=at_us,
            held_mgpu=sum(self.held.values()),
            idle_mgpu=self.idle_mgpu,
            borrowed_mgpu=sum(
                max(0, held - self.quota.get(project, 0)) for project, held in self.held.items()
            ),
            waiting=self.waiting,
        )


#: (time, what, project id, change)
_Change = tuple[int, str, int, int]
#: (workload id, project id, mGPU, from, to)
_Interval = tuple[int, int, int, int, int | None]


def read_day(*, visible: Visibility, pool_id: int, now: datetime) -> Day:
    """Return the day up to ``now``. Seven queries."""
    to_us = _us(now)
    start_us = _us(now - WINDOW)
    intervals = _intervals(visible, pool_id, start_us)
    changes = sorted(
        [
            *_held_changes(intervals, start_us),
            *_waiting_changes(visible, pool_id, start_us, intervals),
            *_idle_changes(visible, pool_id, start_us, to_us),
            *_quota_changes(visible, pool_id, start_us),
        ]
    )
    held = [at for at, what, _project, _change in changes if what == "held"]
    from_us = max(start_us, min(held, default=to_us))
    points = _walk(changes, from_us=from_us, to_us=to_us)
    return Day(
        from_us=from_us,
        to_us=to_us,
        capacity_mgpu=1000 * models.Device.objects.filter(node__pool_id=pool_id).count(),
        points=thin(points, most=MAX_POINTS),
        reclaims=_reclaims(visible, pool_id, now),
    )


def begin_of_records(*, visible: Visibility, pool_id: int, now: datetime) -> int:
    """Return when the 24 hours up to ``now`` begin, or later where nothing was held before. One query."""
    start_us = _us(now - WINDOW)
    rows = _held_since(visible, pool_id, start_us).order_by("from_us")
    first = rows.values_list("from_us", flat=True).first()
    return _us(now) if first is None else max(start_us, first)


def thin(points: tuple[DayPoint, ...], *, most: int) -> tuple[DayPoint, ...]:
    """Return at most ``most`` points, of each stretch the least, the greatest and the last."""
    if len(points) <= most:
        return points
    stretch = -(-len(points) * 3 // (most - 2))
    kept: list[DayPoint] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        chosen = {
            min(part, key=lambda p: p.held_mgpu - p.idle_mgpu),
            max(part, key=lambda p: p.held_mgpu),
            part[-1],
        }
        kept.extend(sorted(chosen, key=lambda p: p.at_us))
    return tuple(kept)


def _walk(changes: Iterable[_Change], *, from_us: int, to_us: int) -> tuple[DayPoint, ...]:
    """Return a point for the start, for each instant at which something changed, and for the end."""
    totals = _Totals(held=defaultdict(int), idle_mgpu=0, quota=defaultdict(int))
    points = {from_us: totals.point(from_us)}
    for at_us, what, project_id, change in changes:
        totals.apply(what, project_id, change)
        at_us = max(from_us, at_us)
        points[at_us] = totals.point(at_us)
    points[to_us] = totals.point(to_us)
    return tuple(points[at_us] for at_us in sorted(points))


def _intervals(visible: Visibility, pool_id: int, start_us: int) -> list[_Interval]:
    rows = _held_since(visible, pool_id, start_us)
    return list(rows.values_list("workload_id", "project_id", "mgpu", "from_us", "to_us"))


def _held_since(
    visible: Visibility, pool_id: int, start_us: int
) -> QuerySet[models.AllocationInterval]:
    return models.AllocationInterval.objects.filter(
        visible.projects(prefix="project__"),
        Q(to_us__isnull=True) | Q(to_us__gt=start_us),
        pool_id=pool_id,
    )


def _waiting_changes(
    visible: Visibility, pool_id: int, start_us: int, intervals: list[_Interval]
) -> Iterable[_Change]:
    held = ((workload_id, from_us, to_us) for workload_id, _, _, from_us, to_us in intervals)
    for at_us, change in read_waits(visible=visible, pool_id=pool_id, start_us=start_us, held=held):
        yield at_us, "waiting", 0, change


def _held_changes(intervals: list[_Interval], start_us: int) -> Iterable[_Change]:
    for _workload_id, project_id, mgpu, from_us, to_us in intervals:
        yield max(start_us, from_us), "held", project_id, mgpu
        if to_us is not None:
            yield to_us, "held", project_id, -mgpu


def _idle_changes(
    visible: Visibility, pool_id: int, start_us: int, now_us: int
) -> Iterable[_Change]:
    rows = models.ActivityInterval.objects.filter(
        visible.projects(prefix="project__"), pool_id=pool_id, idle=True, to_us__gt=start_us
    ).values_list("project_id", "mgpu", "from_us", "to_us", "open")
    for project_id, mgpu, from_us, to_us, is_open in rows.iterator():
        yield max(start_us, from_us), "idle", project_id, mgpu
        if not is_open and to_us <= now_us:
            yield to_us, "idle", project_id, -mgpu


def _quota_changes(visible: Visibility, pool_id: int, start_us: int) -> Iterable[_Change]:
    rows = models.QuotaHistory.objects.filter(
        visible.projects(prefix="project__"),
        Q(to_us__isnull=True) | Q(to_us__gt=start_us),
        pool_id=pool_id,
        project__isnull=False,
    ).values_list("project_id", "quota_mgpu", "from_us", "to_us")
    for project_id, quota_mgpu, from_us, to_us in rows.iterator():
        yield max(start_us, from_us), "quota", project_id, quota_mgpu
        if to_us is not None:
            yield to_us, "quota", project_id, -quota_mgpu


def _reclaims(visible: Visibility, pool_id: int, now: datetime) -> tuple[tuple[int, int], ...]:
    rows = models.Decision.objects.filter(
        visible.projects(prefix="project__"), pool_id=pool_id, verb="reclaim", at__gt=now - WINDOW
    )
    return tuple((_us(at), pk) for at, pk in rows.order_by("at").values_list("at", "id"))


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
