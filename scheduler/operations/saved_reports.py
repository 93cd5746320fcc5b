"""Keep reports as they were made, and schedules that have them made again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler import models
from scheduler.core.vocabulary import Readers
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound


class NameTaken(Exception):
    """The owner has a schedule of that name already; the message says so."""


def save_report(
    *,
    name: str,
    owner: str,
    query: dict[str, list[str]],
    content: dict[str, Any],
    covers: dict[str, Any],
    now: datetime,
    readers: str = Readers.ME,
    schedule_id: int | None = None,
) -> int:
    """Keep a report; return its number. ``covers``: what one must see to read all of it."""
    made = models.SavedReport.objects.create(
        name=name,
        owner=owner,
        query=query,
        content=content,
        covers=covers,
        readers=readers,
        made_at=now,
        schedule_id=schedule_id,
    )
    return made.pk


def require_may_share(*, readers: Readers, authority: Authority) -> None:
    """Refuse what a caller may not make readable.

    Raises:
        NotPermitted: for everyone, by who is no system admin: it tells figures to who may not see them.
    """
    if readers is Readers.ALL and not authority.may(Action.NODES):
        raise NotPermitted(
            "Only a system admin shares a report with everyone. Share it with those who see its units.",
            code="sharing_with_all_is_for_admins",
        )


@transaction.atomic
def share_report(*, report_id: int, readers: Readers, authority: Authority, now: datetime) -> None:
    """Say who reads one of the caller's reports.

    Raises:
        NotFound: it has none of that number.
        NotPermitted: as for ``require_may_share``.
    """
    rows = models.SavedReport.objects.select_for_update().defer("content")
    row = rows.filter(pk=report_id, owner=authority.name).first()
    if row is None:
        raise NotFound("report")
    require_may_share(readers=readers, authority=authority)
    before, row.readers = row.readers, readers
    if before == readers:
        return
    row.save(update_fields=["readers"])
    audit.record(
        authority=authority,
        now=now,
        action="report.share",
        target=row,
        before={"readers": before},
        after={"readers": str(readers)},
    )


def delete_report(*, report_id: int, owner: str) -> None:
    """Drop one of the owner's reports.

    Raises:
        NotFound: it has none of that number.
    """
    gone, _by_model = models.SavedReport.objects.filter(pk=report_id, owner=owner).delete()
    if not gone:
        raise NotFound("report")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """What is to be made, how often, and for whom."""

    name: str
    owner: str
    every: str
    zone: str
    language: str
    query: dict[str, list[str]]
    mail_to: str
    next_at: datetime
    readers: str = Readers.ME


def create_schedule(*, wanted: NewSchedule, now: datetime) -> int:
    """Have a report made again and again; return the schedule's number.

    Raises:
        NameTaken: the owner has one of that name.
    """
    values = asdict(wanted)
    name, owner = values.pop("name"), values.pop("owner")
    with transaction.atomic():
        made, is_new = models.ReportSchedule.objects.get_or_create(
            name=name, owner=owner, defaults={**values, "created_at": now}
        )
    if not is_new:
        raise NameTaken(f"You have a scheduled report called {name}. Choose another name.")
    return made.pk


def delete_schedule(*, schedule_id: int, owner: str) -> None:
    """Stop one of the owner's schedules; the reports it made stay.

    Raises:
        NotFound: it has none of that number.
    """
    gone, _by_model = models.ReportSchedule.objects.filter(pk=schedule_id, owner=owner).delete()
    if not gone:
        raise NotFound("schedule")


def take_due(*, schedule_id: int, next_at: datetime, now: datetime) -> bool:
    """Move a due schedule to its next time. False where another process was faster."""
    rows = models.ReportSchedule.objects.filter(pk=schedule_id, next_at__lte=now)
    return rows.update(next_at=next_at) == 1
