"""What one person was told, like things together, and the ways on which it goes out to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from scheduler import models
from scheduler.core.notices import KIND_OF, PAGE, Kind
from scheduler.queries.notice_words import TOGETHER, words_of
from scheduler.queries.phrases import Phrase
from scheduler.queries.visibility import Visibility

SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line, of one notice or of several like ones. ``unread``: it has not been shown before."""

    id: int
    at: datetime
    code: str
    kind: Kind
    text: Phrase
    unread: bool
    workload_id: int | None = None
    count: int = 1


def count_unread(*, username: str) -> int:
    """Return how many lines a person has not seen. One query."""
    return models.Notification.objects.filter(username=username, read_at=None).count()


def list_notices(*, username: str, visible: Visibility) -> tuple[Notice, ...]:
    """Return the newest lines of a person that it wants on the page; like ones are one line."""
    chosen = settings_of(username=username)
    rows = _rows().filter(username=username).order_by("-id")[:SHOWN]
    wanted = [row for row in rows if PAGE in chosen.channels_for(row.code)]
    return tuple(_notice(group, visible) for group in _grouped(wanted))


def list_in_message(*, ids: Sequence[int], visible: Visibility) -> tuple[Notice, ...]:
    """Return the lines of one message, oldest first; like ones are one line."""
    rows = list(_rows().filter(pk__in=ids).order_by("id"))
    return tuple(_notice(group, visible) for group in _grouped(rows))


def settings_of(*, username: str) -> models.NoticeSettings:
    """Return what a person chose, or the defaults."""
    found = models.NoticeSettings.objects.filter(username=username).first()
    return found or models.NoticeSettings(username=username)


def _rows() -> QuerySet[models.Notification]:
    return models.Notification.objects.select_related("workload__project__department")


def _grouped(rows: Sequence[models.Notification]) -> list[list[models.Notification]]:
    """Put like notices that follow each other together: of one decision, or within one minute."""
    groups: list[list[models.Notification]] = []
    for row in rows:
        if groups and _alike(groups[-1][-1], row):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _alike(first: models.Notification, second: models.Notification) -> bool:
    if first.code != second.code or first.code not in TOGETHER:
        return False
    if (first.read_at is None) != (second.read_at is None):
        return False
    return abs((first.at - second.at).total_seconds()) <= 60


def _notice(rows: Sequence[models.Notification], visible: Visibility) -> Notice:
    row = rows[0]
    return Notice(
        id=row.pk,
        at=row.at,
        code=row.code,
        kind=KIND_OF.get(row.code, Kind.STATE),
        text=words_of(rows, visible=visible),
        unread=row.read_at is None,
        workload_id=row.workload_id if len(rows) == 1 else None,
        count=len(rows),
    )


# --- What is set, and what is on its way ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """One's own way outside of the pages. ``shown``: what may be shown of its address."""

    id: int
    type: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One message on its way, gone, or dead."""

    id: str
    type: str
    created_at: datetime
    status: str
    attempts: int
    next_at: datetime
    error: str
    notices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Something whose audience is still to be told."""

    id: int
    audience: str
    department_id: int | None
    project_id: int | None


def list_channels(*, username: str) -> tuple[ChannelRow, ...]:
    """Return a person's channels."""
    rows = models.NoticeChannel.objects.filter(username=username).order_by("type")
    return tuple(ChannelRow(id=row.pk, type=row.type, shown=row.shown) for row in rows)


def list_deliveries(*, username: str, limit: int = 30) -> tuple[DeliveryRow, ...]:
    """Return a person's last messages, dead ones first."""
    mine = models.NoticeDelivery.objects.filter(channel__username=username)
    dead = models.NoticeDelivery.objects.filter(
        pk=OuterRef("pk"), status=models.NoticeDelivery.Status.DEAD
    )
    rows = mine.select_related("channel").order_by(Exists(dead).desc(), "-created_at")[:limit]
    return tuple(
        DeliveryRow(
            id=str(row.pk),
            type=row.channel.type,
            created_at=row.created_at,
            status=row.status,
            attempts=row.attempts,
            next_at=row.next_at,
            error=row.error,
            notices=len(row.notices),
        )
        for row in rows
    )


def list_announced(*, limit: int = 100) -> tuple[Announced, ...]:
    """Return what is still to be told to its audience, oldest first."""
    rows = models.Announcement.objects.filter(told_at=None).select_related("project")
    return tuple(
        Announced(
            id=row.pk,
            audience=row.audience,
            department_id=row.project.department_id if row.project else row.department_id,
            project_id=row.project_id,
        )
        for row in rows.order_by("id")[:limit]
    )
