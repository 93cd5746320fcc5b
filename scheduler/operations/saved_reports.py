"""Keep reports as they were made, and schedules that have them made again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db import transaction

from scheduler import models
from scheduler.core.vocabulary import Readers
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound


class NameTaken(Exception):
    """The owner has a schedule of that name already; the message says so."""


@transaction.atomic
def save_report(
    *,
    name: str,
    authority: Authority,
    query: dict[str, list[str]],
    content: dict[str, Any],
    covers: dict[str, Any],
    now: datetime,
    readers: Readers = Readers.ME,
    schedule_id: int | None = None,
) -> int:
    """Keep a report of the caller; return its number. ``covers``: what one must see to read all of it.

    What a schedule makes has no entry in the audit log: the schedule has.

    Raises:
        NotPermitted: as for ``require_may_share``.
    """
    require_may_share(readers=readers, authority=authority)
    made = models.SavedReport.objects.create(
        name=name,
        owner=authority.name,
        query=query,
        content=content,
        covers=covers,
        readers=readers,
        made_at=now,
        schedule_id=schedule_id,
    )
    if schedule_id is None:
        audit.record(
            authority=authority,
            now=now,
            action="report.save",
            target=made,
            after={"readers": str(readers), "query": urlencode(query, doseq=True)},
        )
    return made.pk


def readers_allowed(*, readers: Readers, authority: Authority) -> Readers:
    """Return who may read what a schedule makes now: its owner may no longer be who it was."""
    if readers is Readers.ALL and not authority.may(Action.NODES):
        return Readers.UNIT
    return readers


def require_may_share(*, readers: Readers, authority: Authority) -> None:
    """Refuse what a caller may not make readable.

    Raises:
        NotPermitted: for everyone, by who is no system admin: it tells figures to who may not see them.
    """
    if readers_allowed(readers=readers, authority=authority) is not readers:
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


@transaction.atomic
def delete_report(*, report_id: int, authority: Authority, now: datetime) -> None:
    """Drop one of the caller's reports.

    Raises:
        NotFound: it has none of that number.
    """
    rows = models.SavedReport.objects.select_for_update().defer("content")
    row = rows.filter(pk=report_id, owner=authority.name).first()
    if row is None:
        raise NotFound("report")
    audit.record(
        authority=authority,
        now=now,
        action="report.drop",
        target=row,
        before={"readers": row.readers, "made_at": row.made_at.isoformat()},
    )
    row.delete()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """What is to be made, how often, and for whom."""

    name: str
    every: str
    zone: str
    language: str
    query: dict[str, list[str]]
    mail_to: str
    next_at: datetime
    readers: Readers = Readers.ME


@transaction.atomic
def create_schedule(*, wanted: NewSchedule, authority: Authority, now: datetime) -> int:
    """Have a report made again and again for the caller; return the schedule's number.

    Raises:
        NameTaken: the caller has one of that name.
        NotPermitted: as for ``require_may_share``.
    """
    require_may_share(readers=wanted.readers, authority=authority)
    values = asdict(wanted)
    name = values.pop("name")
    made, is_new = models.ReportSchedule.objects.get_or_create(
        name=name, owner=authority.name, defaults={**values, "created_at": now}
    )
    if not is_new:
        raise NameTaken(f"You have a scheduled report called {name}. Choose another name.")
    audit.record(
        authority=authority,
        now=now,
        action="report_schedule.create",
        target=made,
        after=_told_of_schedule(made),
    )
    return made.pk


@transaction.atomic
def delete_schedule(*, schedule_id: int, authority: Authority, now: datetime) -> None:
    """Stop one of the caller's schedules; the reports it made stay.

    Raises:
        NotFound: it has none of that number.
    """
    rows = models.ReportSchedule.objects.select_for_update()
    row = rows.filter(pk=schedule_id, owner=authority.name).first()
    if row is None:
        raise NotFound("schedule")
    audit.record(
        authority=authority,
        now=now,
        action="report_schedule.drop",
        target=row,
        before=_told_of_schedule(row),
    )
    row.delete()


def _told_of_schedule(row: models.ReportSchedule) -> dict[str, object]:
    return {
        "every": row.every,
        "zone": row.zone,
        "query": urlencode(row.query, doseq=True),
        "mail_to": row.mail_to,
        "readers": str(row.readers),
    }


def take_due(*, schedule_id: int, next_at: datetime, now: datetime) -> bool:
    """Move a due schedule to its next time. False where another process was faster."""
    rows = models.ReportSchedule.objects.filter(pk=schedule_id, next_at__lte=now)
    return rows.update(next_at=next_at) == 1
