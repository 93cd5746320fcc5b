"""Saved reports and schedules of one owner, and schedules that are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler import models
from scheduler.core.vocabulary import Readers
from scheduler.queries.visibility import Visibility

SHOWN = 200


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
    """Return the owner's reports, the newest first; ``within``: only of what is seen there."""
    rows = models.SavedReport.objects.filter(owner=owner).defer("content").order_by("-made_at")
    seen = None if within is None else _Seen(within)
    return tuple(_saved_row(row) for row in rows[:SHOWN] if seen is None or seen.covers(row.covers))


def list_shared(*, reader: str, visible: Visibility) -> tuple[SavedRow, ...]:
    """Return what others share with a reader, the newest first. Two queries."""
    rows = models.SavedReport.objects.exclude(owner=reader).exclude(readers=Readers.ME)
    found = rows.defer("content").order_by("-made_at")[:SHOWN]
    seen = _Seen(visible)
    return tuple(_saved_row(row) for row in found if seen.reads(row))


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

    def _projects(self) -> frozenset[int]:
        if self._project_ids is None:
            rows = models.Project.objects.filter(self.visible.projects())
            self._project_ids = frozenset(rows.values_list("pk", flat=True))
        return self._project_ids


def list_schedules(*, owner: str) -> tuple[Schedule, ...]:
    """Return the owner's schedules by name."""
    rows = models.ReportSchedule.objects.filter(owner=owner).order_by("name")
    return tuple(_schedule(row) for row in rows)


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
