"""Saved reports and schedules of one owner, and schedules that are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler import models

SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRow:
    """A report in a list."""

    id: int
    name: str
    made_at: datetime
    scheduled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A report as it was made."""

    id: int
    name: str
    owner: str
    made_at: datetime
    query: dict[str, list[str]]
    content: dict[str, Any]


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
    next_at: datetime


def list_saved(*, owner: str) -> tuple[SavedRow, ...]:
    """Return the owner's reports, the newest first."""
    rows = models.SavedReport.objects.filter(owner=owner).defer("content").order_by("-made_at")
    return tuple(
        SavedRow(
            id=row.pk, name=row.name, made_at=row.made_at, scheduled=row.schedule_id is not None
        )
        for row in rows[:SHOWN]
    )


def read_saved(*, report_id: int, owner: str) -> Saved | None:
    """Return one of the owner's reports, or None."""
    row = models.SavedReport.objects.filter(pk=report_id, owner=owner).first()
    if row is None:
        return None
    return Saved(
        id=row.pk,
        name=row.name,
        owner=row.owner,
        made_at=row.made_at,
        query=row.query,
        content=row.content,
    )


def list_schedules(*, owner: str) -> tuple[Schedule, ...]:
    """Return the owner's schedules by name."""
    rows = models.ReportSchedule.objects.filter(owner=owner).order_by("name")
    return tuple(_schedule(row) for row in rows)


def list_due(*, now: datetime) -> tuple[Schedule, ...]:
    """Return the schedules whose time has come, the longest due first."""
    rows = models.ReportSchedule.objects.filter(next_at__lte=now).order_by("next_at", "id")
    return tuple(_schedule(row) for row in rows)


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
        next_at=row.next_at,
    )
