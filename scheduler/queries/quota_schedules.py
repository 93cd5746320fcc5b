"""Scheduled changes of quotas as a reader may see them: what, when, how far, and the next switches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.core import calendar
from scheduler.core.calendar import Weekly, Window
from scheduler.core.instants import from_us, to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree
from scheduler.queries.visibility import Visibility

#: How far ahead the next switches are shown, and looked for.
AHEAD = timedelta(days=14)
LOOKED_FOR = timedelta(days=400)
PAST_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledUnit:
    """One row of a schedule: its values outside and inside, and where it still wants to go."""

    key: Key
    name: str
    color: int
    outside: QueueQuota
    inside: QueueQuota
    #: What it aims at and can't reach yet; None: it is where it should be.
    aim: QueueQuota | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """One schedule with the rows that its reader may see."""

    id: int
    name: str
    reason: str
    created_by: str
    at: datetime | None
    weekly: Weekly | None
    open: bool
    units: tuple[ScheduledUnit, ...]
    #: It sets rows that the reader does not see.
    partial: bool
    next_at: datetime | None
    #: The windows of the next days; those that hold now begin before them.
    windows: tuple[Window, ...]
    #: Code and numbers of why the switch that is due was refused.
    refused: tuple[Mapping[str, object], ...]
    status: str
    switched_at: datetime | None

    @property
    def keys(self) -> frozenset[Key]:
        """Return the rows that it sets and the reader sees."""
        return frozenset(unit.key for unit in self.units)


def list_schedules(
    *, visible: Visibility, tree: QuotaTree, zone: ZoneInfo, now: datetime
) -> tuple[Scheduled, ...]:
    """Return the active schedules of a pool of which a reader sees a row, the next to switch first."""
    found = _schedules(visible, tree.pool.id).filter(status=models.QuotaSchedule.Status.ACTIVE)
    seen = [_scheduled(row, tree, zone, now) for row in found]
    last = datetime.max.replace(tzinfo=now.tzinfo)
    return tuple(sorted(seen, key=lambda each: (each.next_at or last, each.id)))


def list_past(
    *, visible: Visibility, tree: QuotaTree, zone: ZoneInfo, now: datetime
) -> tuple[Scheduled, ...]:
    """Return the schedules that were carried out or cancelled last."""
    found = _schedules(visible, tree.pool.id).exclude(status=models.QuotaSchedule.Status.ACTIVE)
    return tuple(_scheduled(row, tree, zone, now) for row in found.order_by("-pk")[:PAST_SHOWN])


def find_scheduled(
    *, visible: Visibility, tree: QuotaTree, schedule_id: int, zone: ZoneInfo, now: datetime
) -> Scheduled | None:
    """Return one active schedule, or None where there is none for the reader."""
    found = _schedules(visible, tree.pool.id).filter(
        pk=schedule_id, status=models.QuotaSchedule.Status.ACTIVE
    )
    row = found.first()
    return None if row is None else _scheduled(row, tree, zone, now)


def outside_of(tree: QuotaTree, scheduled: Scheduled) -> QuotaTree:
    """Return the tree as it is outside of a schedule's window: what its edit starts from."""
    return tree.with_quotas({unit.key: unit.outside for unit in scheduled.units})


def _schedules(visible: Visibility, pool_id: int) -> QuerySet[models.QuotaSchedule]:
    found = models.QuotaSchedule.objects.filter(pool_id=pool_id).prefetch_related("rows")
    if visible.cluster:
        return found
    projects = models.Project.objects.filter(visible.projects()).values("pk")
    rows = models.QuotaScheduleRow.objects.filter(
        Q(project__in=projects) | Q(department__in=visible.department_ids)
    )
    return found.filter(pk__in=rows.values("schedule"))


def _scheduled(
    row: models.QuotaSchedule, tree: QuotaTree, zone: ZoneInfo, now: datetime
) -> Scheduled:
    parts = [(part, tree.row(key_of(part))) for part in row.rows.all()]
    weekly = None if row.at else weekly_of(row)
    spans: tuple[Window, ...] = ()
    if weekly is not None and row.status == models.QuotaSchedule.Status.ACTIVE:
        spans = tuple(_windows(weekly, zone, now, AHEAD))
    return Scheduled(
        id=row.pk,
        name=row.name,
        reason=row.reason,
        created_by=row.created_by,
        at=row.at,
        weekly=weekly,
        open=row.open,
        units=tuple(
            _unit(row, part, unit) for part, unit in parts if unit is not None and unit.known
        ),
        partial=any(unit is None or not unit.known for _part, unit in parts),
        next_at=row.at if weekly is None else _next_at(weekly, zone, now),
        windows=spans,
        refused=tuple(row.refused),
        status=row.status,
        switched_at=row.switched_at,
    )


def key_of(part: models.QuotaScheduleRow) -> Key:
    """Return which row of the quotas it sets."""
    if part.project_id is not None:
        return Level.PROJECT, part.project_id
    return Level.DEPARTMENT, part.department_id or 0


def weekly_of(row: models.QuotaSchedule) -> Weekly:
    """Return a schedule's windows as the calendar takes them."""
    return Weekly(
        days=frozenset(row.days),
        from_minute=row.from_minute,
        to_minute=row.to_minute,
        holidays=frozenset(date.fromisoformat(day) for day in row.holidays),
    )


def _unit(
    schedule: models.QuotaSchedule, part: models.QuotaScheduleRow, unit: QuotaRow
) -> ScheduledUnit:
    current = unit.quota
    outside = replace(current, **part.before) if schedule.open else current
    return ScheduledUnit(
        key=unit.key,
        name=unit.name,
        color=unit.color,
        outside=outside,
        inside=replace(outside, **part.cells),
        aim=replace(current, **part.aim) if part.aim else None,
    )


def _windows(weekly: Weekly, zone: ZoneInfo, now: datetime, ahead: timedelta) -> Iterable[Window]:
    return calendar.windows(
        weekly=weekly, zone=zone, from_us_=to_us(now), to_us_=to_us(now + ahead)
    )


def _next_at(weekly: Weekly, zone: ZoneInfo, now: datetime) -> datetime | None:
    for ahead in (AHEAD, LOOKED_FOR):
        for window in _windows(weekly, zone, now, ahead):
            begin_us, now_us = window.begin_us, to_us(now)
            return from_us(begin_us if begin_us > now_us else window.end_us)
    return None
