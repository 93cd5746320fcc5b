"""Push events: that something changed, said on commit; and the wake-up call for the tick."""

from __future__ import annotations

import json
import logging

import redis
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

CHANGED_CHANNEL = "tidegate:changed"
LAST_TICK_KEY = "tidegate:last_tick"
WAKE_KEY = "tidegate:wake"

_clients: dict[str, redis.Redis] = {}


def client() -> redis.Redis:
    """Return this process's Redis client. Calls time out after two seconds."""
    url = str(settings.REDIS_URL)
    if url not in _clients:
        _clients[url] = redis.Redis.from_url(
            url, socket_timeout=2, socket_connect_timeout=2, max_connections=500
        )
    return _clients[url]


def publish_changed(*, cycle: int, at_us: int, generation: int) -> None:
    """Tell every web process that the state changed. A lost message costs nothing: the next says all."""
    body = json.dumps({"cycle": cycle, "at_us": at_us, "generation": generation, "scopes": "all"})
    try:
        client().publish(CHANGED_CHANNEL, body)
    except redis.RedisError:
        log.warning("events.publish.failed", exc_info=True)


def record_tick(*, at_s: int) -> None:
    """Leave the time of the last finished tick where the supervisor and pages look for it."""
    try:
        client().set(LAST_TICK_KEY, at_s)
    except redis.RedisError:
        log.warning("events.last_tick.failed", exc_info=True)


def wake_on_commit() -> None:
    """Ask for a tick as soon as this transaction is committed. The timer alone would do, later."""
    transaction.on_commit(wake)


def wake() -> None:
    """Ask for a tick now: a running one looks again, else one is queued."""
    from celery import current_app

    try:
        client().incr(WAKE_KEY)
        current_app.send_task("scheduler.tasks.tick", expires=2, retry=False)
    except (redis.RedisError, OperationalError, OSError):
        log.warning("events.wake.failed", exc_info=True)


def wake_verifications() -> None:
    """Ask for a look at the runs of verifications. The timer alone would do, later."""
    _send("scheduler.tasks.tend_verifications")


def wake_demo_day() -> None:
    """Ask for a look at the demonstration's day. The timer alone would do, later."""
    _send("scheduler.tasks.tend_demo_day")


def _send(task: str) -> None:
    from celery import current_app

    try:
        current_app.send_task(task, expires=15, retry=False)
    except (redis.RedisError, OperationalError, OSError):
        log.warning("events.wake.failed", exc_info=True)


def wake_count() -> int:
    """Return how often a tick was asked for; a running tick compares it with what it saw."""
    try:
        value = client().get(WAKE_KEY)
    except redis.RedisError:
        return 0
    return int(value) if value is not None else 0
