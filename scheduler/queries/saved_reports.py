"""Saved reports and schedules of one owner, and schedules that are due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from scheduler import models
from scheduler.core.vocabulary import Readers
from scheduler.queries.visibility import Visibility

SHOWN = 200
#: Rows that are in memory at a time while a list is filtered.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRow:
    """A report in a list."""

    id: int
    name: str
    owner: str
    made_at: datetime
    scheduled: bool
    readers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A report as it was made."""

    id: int
    name: str
    owner: str
    made_at: datetime
    query: dict[str, list[str]]
    content: dict[str, Any]
    readers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What has a report made again and again."""

    id: int
    name: str
    owner: str
    every: str
    zone: str
    language: str
    query: dict[str, list[str]]
    mail_to: str
    readers: str
    next_at: datetime


def list_saved(*, owner: str, within: Visibility | None = None) -> tuple[SavedRow, ...]:
    """Return the owner's newest reports; ``within``: only of what is seen there."""
    seen = None if within is None else _Seen(within)
    found = _newest(models.SavedReport.objects.filter(owner=owner))
    return _first(row for row in found if seen is None or seen.covers(row.covers))


def list_shared(*, reader: str, visible: Visibility) -> tuple[SavedRow, ...]:
    """Return the newest that others share with a reader. Two queries."""
    seen = _Seen(visible)
    found = _newest(models.SavedReport.objects.exclude(owner=reader).exclude(readers=Readers.ME))
    return _first(row for row in found if seen.reads(row))


def _newest(rows: QuerySet[models.SavedReport]) -> Iterator[models.SavedReport]:
    """Yield rows without their figures, the newest first, some at a time."""
    return rows.defer("content").order_by("-made_at", "-id").iterator(chunk_size=CHUNK)


def _first(rows: Iterator[models.SavedReport]) -> tuple[SavedRow, ...]:
    """Return the first of what a reader may see: it is cut after the rights, not before."""
    return tuple(_saved_row(row) for row in islice(rows, SHOWN))


def read_saved(*, report_id: int, reader: str, visible: Visibility | None = None) -> Saved | None:
    """Return a report that is the reader's own, or shared with it; else None.

    With ``visible`` others' reports are there too, as far as they are shared with who sees that.
    """
    row = models.SavedReport.objects.filter(pk=report_id).first()
    if row is None:
        return None
    if row.owner != reader and (visible is None or not _Seen(visible).reads(row)):
        return None
    return Saved(
        id=row.pk,
        name=row.name,
        owner=row.owner,
        made_at=row.made_at,
        query=row.query,
        content=row.content,
        readers=row.readers,
    )


def is_within(*, report_id: int, visible: Visibility) -> bool:
    """Test whether who sees that sees every unit that a report tells of."""
    row = models.SavedReport.objects.filter(pk=report_id).defer("content").first()
    return row is not None and _Seen(visible).covers(row.covers)


class _Seen:
    """What a reader sees, looked up once for a list of reports."""

    def __init__(self, visible: Visibility) -> None:
        self.visible = visible
        self._project_ids: frozenset[int] | None = None

    def reads(self, row: models.SavedReport) -> bool:
        """Test whether the reader may read another's report."""
        if row.readers == Readers.ALL:
            return True
        return row.readers == Readers.UNIT and self.covers(row.covers)

    def covers(self, needed: dict[str, Any]) -> bool:
        """Test whether the reader sees all that a report tells of; where that is unknown, it doesn't."""
        if self.visible.cluster:
            return True
        if not needed or needed.get("cluster"):
            return False
        if not self.visible.department_ids.issuperset(needed["departments"]):
            return False
        return self._projects().issuperset(needed["projects"])

    def asks(self, query: dict[str, list[str]]) -> bool:
        """Test whether a schedule names units, and the reader sees all of them."""
        projects, departments = query.get("project", []), query.get("department", [])
        if projects:
            return self._projects().issuperset(map(int, projects))
        return bool(departments) and self.visible.department_ids.issuperset(map(int, departments))

    def _projects(self) -> frozenset[int]:
        if self._project_ids is None:
            rows = models.Project.objects.filter(self.visible.projects())
            self._project_ids = frozenset(rows.values_list("pk", flat=True))
        return self._project_ids


def list_schedules(*, owner: str, within: Visibility | None = None) -> tuple[Schedule, ...]:
    """Return the owner's schedules by name; ``within``: only of what is seen there."""
    rows = models.ReportSchedule.objects.filter(owner=owner).order_by("name")
    seen = None if within is None else _Seen(within)
    return tuple(_schedule(row) for row in rows if seen is None or seen.asks(row.query))


def asks_within(*, query: dict[str, list[str]], visible: Visibility) -> bool:
    """Test whether a schedule asks for named units only, all of which are seen there."""
    return _Seen(visible).asks(query)


def read_projects(*, ids: frozenset[int], visible: Visibility) -> frozenset[int]:
    """Return those of some projects that are there for a reader."""
    rows = models.Project.objects.filter(visible.projects(), pk__in=ids)
    return frozenset(rows.values_list("pk", flat=True))


def list_due(*, now: datetime) -> tuple[Schedule, ...]:
    """Return the schedules whose time has come, the longest due first."""
    rows = models.ReportSchedule.objects.filter(next_at__lte=now).order_by("next_at", "id")
    return tuple(_schedule(row) for row in rows)


def _saved_row(row: models.SavedReport) -> SavedRow:
    return SavedRow(
        id=row.pk,
        name=row.name,
        owner=row.owner,
        made_at=row.made_at,
        scheduled=row.schedule_id is not None,
        readers=row.readers,
    )


def _schedule(row: models.ReportSchedule) -> Schedule:
    return Schedule(
        id=row.pk,
        name=row.name,
        owner=row.owner,
        every=row.every,
        zone=row.zone,
        language=row.language,
        query=row.query,
        mail_to=row.mail_to,
        readers=row.readers,
        next_at=row.next_at,
    )
