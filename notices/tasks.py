"""Celery tasks of notices: from what was announced to people, to messages, to receivers."""

from __future__ import annotations

import logging
import time
import uuid

import redis
from celery import shared_task
from django.utils import timezone

from access.models import User
from notices import audience, message, senders
from notices.senders import NotTaken
from scheduler import events
from scheduler.operations import deliveries
from scheduler.operations import notices as operations
from scheduler.operations.deliveries import Claimed

log = logging.getLogger(__name__)

#: One round sends for so long; what is left the next one sends.
SENDS_FOR_S = 12.0
LOCK_KEY = "tidegate:delivering"
LOCK_S = 45


@shared_task(name="notices.tasks.deliver", ignore_result=True)
def deliver() -> None:
    """Carry what people are told one step on. One round at a time, so that ticks have their worker."""
    mark = uuid.uuid4().hex
    if not _take(mark):
        return
    try:
        audience.tell_announced()
        operations.gather(now=timezone.now())
        send_due(for_s=SENDS_FOR_S)
    finally:
        _let_go(mark)


@shared_task(name="notices.tasks.forget_old", ignore_result=True)
def forget_old() -> None:
    """Drop notices and messages that nobody looks at any more."""
    operations.forget_old(now=timezone.now())


def send_due(*, for_s: float) -> int:
    """Send what is due until nothing is or the time is over; return how many were taken."""
    until = time.monotonic() + for_s
    taken = 0
    while time.monotonic() < until:
        claimed = deliveries.claim_due(now=timezone.now())
        if claimed is None:
            break
        taken += _send(claimed)
    return taken


def _send(claimed: Claimed) -> bool:
    """Send one message and write what became of it."""
    user = User.objects.filter(username=claimed.username, is_active=True).first()
    now = timezone.now()
    try:
        if user is None:
            raise NotTaken("the account is gone", final=True)
        senders.send(
            message=message.write(claimed=claimed, user=user),
            type=claimed.type,
            user=user,
            secrets=claimed.secrets,
            at_s=int(now.timestamp()),
        )
    except NotTaken as error:
        log.warning(
            "notices.not_taken",
            extra={"delivery": str(claimed.id), "type": claimed.type, "attempt": claimed.attempts},
        )
        deliveries.failed(
            delivery_id=claimed.id,
            attempts=claimed.attempts,
            error=str(error),
            now=timezone.now(),
            final=error.final,
        )
        return False
    deliveries.sent(delivery_id=claimed.id, now=timezone.now())
    return True


def _take(mark: str) -> bool:
    """Take the round; without Redis there are no others, either: a worker has its tasks from there."""
    try:
        return bool(events.client().set(LOCK_KEY, mark, nx=True, ex=LOCK_S))
    except redis.RedisError:
        return True


def _let_go(mark: str) -> None:
    try:
        if events.client().get(LOCK_KEY) == mark.encode():
            events.client().delete(LOCK_KEY)
    except redis.RedisError:
        log.warning("notices.lock.kept", exc_info=True)
