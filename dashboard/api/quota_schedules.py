"""Quotas that change by themselves: at a time, or in windows of each week in the cluster's zone."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard import problems
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.pools import pool_named
from dashboard.api.quotas import QuotaIn, wanted_values
from dashboard.api.submission import Strict
from dashboard.cluster_zone import cluster_zone
from scheduler.core.calendar import DAY_MINUTES, Weekly
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Level
from scheduler.operations import quota_schedules as operations
from scheduler.operations.quotas import QuotaEdit
from scheduler.operations.refused import NotFound, Problem
from scheduler.queries import quota_schedules as queries
from scheduler.queries.pool_state import PoolRow, list_pools
from scheduler.queries.quota_tree import QuotaTree, read_pool_tree

router = Router(tags=["Quota schedules"])


class ValuesOut(Schema):
    """Values of a row. ``limit_mgpu`` null: no limit."""

    quota_mgpu: int
    limit_mgpu: int | None
    over_quota: bool
    rank: int
    weight_milli: int

    @staticmethod
    def of(quota: QueueQuota) -> ValuesOut:
        """Return values as they are answered."""
        limit_mgpu = quota.effective_limit_mgpu
        return ValuesOut(
            quota_mgpu=quota.quota_mgpu,
            limit_mgpu=None if limit_mgpu >= UNLIMITED_MGPU else limit_mgpu,
            over_quota=quota.over_quota,
            rank=quota.rank,
            weight_milli=quota.weight_milli,
        )


class ScheduledRowOut(Schema):
    """One row that a schedule sets: before it or outside of its windows, and then or inside."""

    level: Level
    id: int
    name: str
    outside: ValuesOut
    inside: ValuesOut
    on_the_way: bool


class WeeklyOut(Schema):
    """A window of each of ``days`` (Monday is 0), by the clock of the cluster's zone.

    ``to_minute`` not after ``from_minute``: it ends on the next day. On a holiday none begins.
    """

    days: list[int]
    from_minute: int
    to_minute: int
    holidays: list[date]


class ScheduleOut(Schema):
    """One schedule with the rows that the caller sees; ``partial``: it sets others too."""

    id: int
    pool: str
    name: str
    reason: str
    created_by: str
    at: datetime | None
    weekly: WeeklyOut | None
    open: bool
    status: str
    next_at: datetime | None
    switched_at: datetime | None
    rows: list[ScheduledRowOut]
    partial: bool
    refused: list[str]

    @staticmethod
    def of(row: queries.Scheduled, *, pool: str) -> ScheduleOut:
        """Return a schedule as it is answered."""
        return ScheduleOut(
            id=row.id,
            pool=pool,
            name=row.name,
            reason=row.reason,
            created_by=row.created_by,
            at=row.at,
            weekly=_weekly(row.weekly),
            open=row.open,
            status=row.status,
            next_at=row.next_at,
            switched_at=row.switched_at,
            rows=[
                ScheduledRowOut(
                    level=unit.key[0],
                    id=unit.key[1],
                    name=unit.name,
                    outside=ValuesOut.of(unit.outside),
                    inside=ValuesOut.of(unit.inside),
                    on_the_way=unit.aim is not None,
                )
                for unit in row.units
            ],
            partial=row.partial,
            refused=[] if row.partial else [_in_words(each) for each in row.refused],
        )


class WeeklyIn(Strict):
    """A window of each of ``days`` (Monday is 0), by the clock of the cluster's zone."""

    days: list[int] = Field(min_length=1, max_length=7)
    from_minute: int = Field(ge=0, lt=DAY_MINUTES)
    to_minute: int = Field(ge=0, lt=DAY_MINUTES)
    holidays: list[date] = Field([], max_length=operations.MOST_HOLIDAYS)


class ScheduleIn(Strict):
    """When, and the rows as they are then: for good from ``at`` on, or while a ``weekly`` window holds."""

    pool: str = Field("", max_length=63, description="Empty: the first pool.")
    name: str = Field(max_length=operations.NAME_LENGTH)
    reason: str = Field("", max_length=400)
    at: lists.Instant | None = None
    weekly: WeeklyIn | None = None
    rows: list[QuotaIn] = Field(min_length=1, max_length=2000)

    def timing(self) -> operations.Timing:
        """Return when, as the operations take it."""
        if self.weekly is None:
            return operations.Timing(at=self.at)
        weekly = Weekly(
            days=frozenset(self.weekly.days),
            from_minute=self.weekly.from_minute,
            to_minute=self.weekly.to_minute,
            holidays=frozenset(self.weekly.holidays),
        )
        return operations.Timing(weekly=weekly)


@router.get("", response={200: lists.Page[ScheduleOut], **READS}, summary="List schedules")
def list_schedules(
    request: HttpRequest,
    pool: str = param.Query("", max_length=63),
    which: Literal["active", "past"] = param.Query("active", description="past: the last ten."),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[ScheduleOut]:
    """Of one pool; the next to switch first."""
    tree = _tree(request, pool_named(request, pool))
    read = queries.list_past if which == "past" else queries.list_schedules
    found = read(visible=who(request).visible, tree=tree, zone=cluster_zone(), now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[ScheduleOut](
        items=[ScheduleOut.of(row, pool=tree.pool.name) for row in rows],
        next=following,
        total=len(found),
    )


@router.post("", response={201: ScheduleOut, **WRITES}, summary="Schedule a change")
def create_schedule(request: HttpRequest, given: ScheduleIn) -> Status[ScheduleOut]:
    """A window that holds now opens at once."""
    tree = _tree(request, pool_named(request, given.pool))
    made = _save(request, given, tree=tree, schedule_id=None)
    return Status(201, _find(request, made))


@router.get("/{schedule_id}", response={200: ScheduleOut, **READS}, summary="One schedule")
def schedule(request: HttpRequest, schedule_id: lists.Id) -> ScheduleOut:
    """One that is active."""
    return _find(request, schedule_id)


@router.put("/{schedule_id}", response={200: ScheduleOut, **WRITES}, summary="Change a schedule")
def change_schedule(request: HttpRequest, schedule_id: lists.Id, given: ScheduleIn) -> ScheduleOut:
    """An open one first goes back to what was before it."""
    pool, found = _scheduled(request, schedule_id)
    if given.pool not in ("", pool.name):
        raise NotFound("scheduled change")
    tree = queries.outside_of(_tree(request, pool), found)
    return _find(request, _save(request, given, tree=tree, schedule_id=schedule_id))


@router.delete("/{schedule_id}", response={204: None, **WRITES}, summary="Cancel a schedule")
def cancel_schedule(request: HttpRequest, schedule_id: lists.Id) -> Status[None]:
    """One that is open goes back to what was before it."""
    operations.cancel_schedule(
        schedule_id=schedule_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


def _save(
    request: HttpRequest, given: ScheduleIn, *, tree: QuotaTree, schedule_id: int | None
) -> int:
    wanted = wanted_values(request, tree, given.rows)
    return operations.save_schedule(
        pool_id=tree.pool.id,
        name=given.name,
        timing=given.timing(),
        edits=[QuotaEdit(level=key[0], id=key[1], values=each) for key, each in wanted.items()],
        authority=who(request).authority,
        now=timezone.now(),
        reason=given.reason,
        schedule_id=schedule_id,
    ).pk


def _tree(request: HttpRequest, pool: PoolRow) -> QuotaTree:
    return read_pool_tree(visible=who(request).visible, pool=pool)


def _scheduled(request: HttpRequest, schedule_id: int) -> tuple[PoolRow, queries.Scheduled]:
    for pool in list_pools(visible=who(request).visible):
        found = queries.find_scheduled(
            visible=who(request).visible,
            tree=_tree(request, pool),
            schedule_id=schedule_id,
            zone=cluster_zone(),
            now=timezone.now(),
        )
        if found is not None:
            return pool, found
    raise NotFound("scheduled change")


def _find(request: HttpRequest, schedule_id: int) -> ScheduleOut:
    pool, found = _scheduled(request, schedule_id)
    return ScheduleOut.of(found, pool=pool.name)


def _weekly(weekly: Weekly | None) -> WeeklyOut | None:
    if weekly is None:
        return None
    return WeeklyOut(
        days=sorted(weekly.days),
        from_minute=weekly.from_minute,
        to_minute=weekly.to_minute,
        holidays=sorted(weekly.holidays),
    )


def _in_words(told: object) -> str:
    assert isinstance(told, dict)
    return problems.in_words(
        Problem(field="", code=told["code"], message=told["code"], params=told["params"])
    )
