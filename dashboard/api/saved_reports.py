"""Saved and scheduled reports: made, read, shared and dropped, with the rights of the pages."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import get_language
from ninja import Query, Router, Schema
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import Caller, who
from dashboard.api.errors import READS, WRITES
from dashboard.api.report_query import ReportQuery
from dashboard.api.submission import Strict
from reports import saved
from scheduler.core.vocabulary import Readers
from scheduler.operations import saved_reports as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import saved_reports as queries
from scheduler.queries.visibility import Visibility

router = Router(tags=["Consumption"])


class SavedOut(Schema):
    """One report that stays as it was made."""

    id: int
    name: str
    owner: str
    made_at: datetime
    scheduled: bool
    readers: Readers


class SavedWholeOut(Schema):
    """One report with its figures, by the columns of the CSV; ``total`` has the same columns."""

    id: int
    name: str
    owner: str
    made_at: datetime
    readers: Readers
    period_start: str
    period_end: str
    zone: str
    filters: str
    currency: str
    header: list[str]
    lines: list[list[str]]
    total: list[str]


class ReportScheduleOut(Schema):
    """What has a report made again and again."""

    id: int
    name: str
    every: str
    zone: str
    next_at: datetime
    readers: Readers


class SaveIn(Strict):
    """How a report is to be kept; what it is about stands in the address, as for the report itself."""

    name: str = Field(max_length=120)
    readers: Readers = Readers.ME


class ReportScheduleIn(Strict):
    """What is to be made, and how often. Who is mailed is set on the page."""

    name: str = Field(max_length=120)
    every: Literal["day", "week", "month"]
    readers: Readers = Readers.ME


class ShareIn(Strict):
    """Who reads it."""

    readers: Readers


@router.get("/saved", response={200: lists.Page[SavedOut], **READS}, summary="List saved reports")
def list_saved(request: HttpRequest) -> lists.Page[SavedOut]:
    """One's own and those that are shared with one, the newest first."""
    caller = who(request)
    own = queries.list_saved(owner=caller.authority.name, within=_within(caller))
    shared = queries.list_shared(reader=caller.authority.name, visible=caller.visible)
    rows = sorted([*own, *shared], key=lambda row: row.made_at, reverse=True)
    return lists.Page[SavedOut](items=[SavedOut.from_orm(row) for row in rows])


@router.post("/saved", response={201: SavedWholeOut, **WRITES}, summary="Make a report and keep it")
def save(request: HttpRequest, body: SaveIn, query: Query[ReportQuery]) -> Status[SavedWholeOut]:
    """It stays as it is made now, whatever becomes of the ledger."""
    caller, now = who(request), timezone.now()
    report_id = saved.save(
        visible=caller.visible,
        asked=query.asked(now),
        name=body.name,
        authority=caller.authority,
        readers=body.readers,
        now=now,
    )
    return Status(201, _whole(_find(caller, report_id)))


@router.get(
    "/saved/{saved_id}", response={200: SavedWholeOut, **READS}, summary="Read a saved report"
)
def read_saved(request: HttpRequest, saved_id: int) -> SavedWholeOut:
    """With the figures that it was made with."""
    return _whole(_find(who(request), saved_id))


@router.patch(
    "/saved/{saved_id}", response={200: SavedWholeOut, **WRITES}, summary="Say who reads a report"
)
def share(request: HttpRequest, saved_id: int, body: ShareIn) -> SavedWholeOut:
    """Only its owner; with everyone only a system admin."""
    caller = who(request)
    _find(caller, saved_id)
    operations.share_report(
        report_id=saved_id,
        readers=body.readers,
        authority=caller.authority,
        now=timezone.now(),
    )
    return _whole(_find(caller, saved_id))


@router.delete("/saved/{saved_id}", response={204: None, **WRITES}, summary="Drop a saved report")
def drop(request: HttpRequest, saved_id: int) -> Status[None]:
    """Only its owner."""
    caller = who(request)
    _find(caller, saved_id)
    operations.delete_report(report_id=saved_id, authority=caller.authority, now=timezone.now())
    return Status(204, None)


@router.get(
    "/schedules",
    response={200: lists.Page[ReportScheduleOut], **READS},
    summary="List one's schedules",
)
def list_schedules(request: HttpRequest) -> lists.Page[ReportScheduleOut]:
    """By name; for a token of a narrower scope those that name units of it."""
    rows = _schedules(who(request))
    return lists.Page[ReportScheduleOut](items=[ReportScheduleOut.from_orm(row) for row in rows])


@router.post(
    "/schedules",
    response={201: ReportScheduleOut, **WRITES},
    summary="Have a report made regularly",
)
def add_schedule(
    request: HttpRequest, body: ReportScheduleIn, query: Query[ReportQuery]
) -> Status[ReportScheduleOut]:
    """Each time about the period that has just ended, with what its owner may see then."""
    caller, now = who(request), timezone.now()
    asked, within = query.asked(now), _within(caller)
    if within is not None:
        saved.require_within(asked=asked, visible=within)
    schedule_id = saved.schedule(
        asked=asked,
        name=body.name,
        authority=caller.authority,
        every=body.every,
        language=get_language() or "en",
        mail_to="",
        readers=body.readers,
        now=now,
    )
    made = next(row for row in _schedules(caller) if row.id == schedule_id)
    return Status(201, ReportScheduleOut.from_orm(made))


@router.delete(
    "/schedules/{report_schedule_id}", response={204: None, **WRITES}, summary="Stop a schedule"
)
def drop_schedule(request: HttpRequest, report_schedule_id: int) -> Status[None]:
    """The reports that it made stay."""
    caller = who(request)
    if report_schedule_id not in {row.id for row in _schedules(caller)}:
        raise NotFound("schedule")
    operations.delete_schedule(
        schedule_id=report_schedule_id, authority=caller.authority, now=timezone.now()
    )
    return Status(204, None)


def _within(caller: Caller) -> Visibility | None:
    """Return what a token of a narrower scope sees; None: all that its owner does."""
    return caller.visible if caller.authority.narrowed else None


def _schedules(caller: Caller) -> tuple[queries.Schedule, ...]:
    return queries.list_schedules(owner=caller.authority.name, within=_within(caller))


def _find(caller: Caller, saved_id: int) -> queries.Saved:
    """Return a report that the caller may read; a token never reads beyond what it sees."""
    found = queries.read_saved(
        report_id=saved_id, reader=caller.authority.name, visible=caller.visible
    )
    if found is None:
        raise NotFound("report")
    if (
        found.owner == caller.authority.name
        and caller.authority.narrowed
        and not queries.is_within(report_id=saved_id, visible=caller.visible)
    ):
        raise NotFound("report")
    return found


def _whole(found: queries.Saved) -> SavedWholeOut:
    told = ("period_start", "period_end", "zone", "filters", "currency", "header", "lines", "total")
    return SavedWholeOut(
        id=found.id,
        name=found.name,
        owner=found.owner,
        made_at=found.made_at,
        readers=Readers(found.readers),
        **{name: found.content[name] for name in told},
    )
