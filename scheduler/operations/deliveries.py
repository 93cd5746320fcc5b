"""Ways to people outside of the pages, and the messages on them: claimed, sent, tried again, dead."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from scheduler.core.notices import ChannelType
from scheduler.models import NoticeChannel, NoticeDelivery
from scheduler.operations import audit, secret_box
from scheduler.operations.authority import Authority
from scheduler.operations.refused import NotFound, Problem, StateRefused

#: Pauses before a message is tried again; after the last it is dead.
PAUSES_S = (10, 30, 120, 600, 1800, 3600, 7200, 14_400)
#: Whoever claims a message has this long to say what became of it.
CLAIMED_FOR = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One message to be sent now. ``secrets``: what its channel was sealed with."""

    id: uuid.UUID
    username: str
    type: str
    notice_ids: tuple[int, ...]
    attempts: int
    created_at: datetime
    secrets: Mapping[str, str]


@transaction.atomic
def save_channel(
    *,
    type: str,
    shown: str,
    secrets: Mapping[str, str],
    authority: Authority,
    now: datetime,
) -> NoticeChannel:
    """Set one's own channel of that type; what it had before is gone.

    Raises:
        StateRefused: there is no such type.
    """
    if type not in set(ChannelType):
        problem = Problem(field="type", code="bad_choice", message="There is no such channel.")
        raise StateRefused([problem])
    row, _made = NoticeChannel.objects.update_or_create(
        username=authority.name,
        type=type,
        defaults={
            "shown": shown[:200],
            "sealed": secret_box.seal(values=secrets) if secrets else b"",
            "created_at": now,
        },
    )
    audit.record(
        authority=authority,
        now=now,
        action="notices.channel",
        target=row,
        after={"type": type, "shown": row.shown},
    )
    return row


@transaction.atomic
def remove_channel(*, channel_id: int, authority: Authority, now: datetime) -> None:
    """Take one's own channel away, with what is still on its way on it.

    Raises:
        NotFound: it is not one's own.
    """
    row = _own(channel_id, authority)
    audit.record(
        authority=authority,
        now=now,
        action="notices.channel_removed",
        target=row,
        before={"type": row.type, "shown": row.shown},
    )
    row.delete()


@transaction.atomic
def send_test(*, channel_id: int, authority: Authority, now: datetime) -> NoticeDelivery:
    """Put a message without notices on one's own channel.

    Raises:
        NotFound: it is not one's own.
    """
    row = _own(channel_id, authority)
    return NoticeDelivery.objects.create(channel=row, created_at=now, next_at=now)


@transaction.atomic
def send_again(*, delivery_id: uuid.UUID, authority: Authority, now: datetime) -> None:
    """Try a dead message of one's own anew.

    Raises:
        NotFound: there is none.
    """
    row = NoticeDelivery.objects.filter(
        pk=delivery_id, status=NoticeDelivery.Status.DEAD, channel__username=authority.name
    ).first()
    if row is None:
        raise NotFound("delivery")
    row.status, row.attempts, row.next_at = NoticeDelivery.Status.WAITING, 0, now
    row.ended_at = None
    row.save()


def claim_due(*, now: datetime) -> Claimed | None:
    """Claim the message that has waited longest; of several who ask at once each gets another.

    Whoever claimed one and died has not sent it as far as anyone knows: it is due again after a
    minute, with the same id.
    """
    due = NoticeDelivery.objects.filter(status=NoticeDelivery.Status.WAITING, next_at__lte=now)
    for row in due.select_related("channel").order_by("next_at")[:20]:
        mine = NoticeDelivery.objects.filter(
            pk=row.pk, status=NoticeDelivery.Status.WAITING, next_at=row.next_at
        )
        if mine.update(next_at=now + CLAIMED_FOR, attempts=row.attempts + 1):
            sealed = bytes(row.channel.sealed)
            return Claimed(
                id=row.pk,
                username=row.channel.username,
                type=row.channel.type,
                notice_ids=tuple(row.notices),
                attempts=row.attempts + 1,
                created_at=row.created_at,
                secrets=secret_box.unseal(sealed=sealed) if sealed else {},
            )
    return None


def sent(*, delivery_id: uuid.UUID, now: datetime) -> None:
    """Write that a message was taken by its receiver."""
    NoticeDelivery.objects.filter(pk=delivery_id).update(
        status=NoticeDelivery.Status.SENT, ended_at=now, error=""
    )


def failed(
    *, delivery_id: uuid.UUID, attempts: int, error: str, now: datetime, final: bool = False
) -> None:
    """Write why a message was not taken; it is tried again later, or is dead."""
    row = NoticeDelivery.objects.filter(pk=delivery_id)
    if final or attempts > len(PAUSES_S):
        row.update(status=NoticeDelivery.Status.DEAD, ended_at=now, error=error[:300])
        return
    pause = timedelta(seconds=PAUSES_S[attempts - 1])
    row.update(next_at=now + pause, error=error[:300])


def _own(channel_id: int, authority: Authority) -> NoticeChannel:
    row = NoticeChannel.objects.filter(pk=channel_id, username=authority.name).first()
    if row is None:
        raise NotFound("channel")
    return row
