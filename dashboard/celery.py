"""The Celery application and the beat schedule; ``celery -A dashboard`` finds it here."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import redis
from celery import Celery, signals
from structlog.contextvars import bind_contextvars, unbind_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from django.conf import settings

WORKER_SEEN_KEY = "tidegate:worker_seen"
BEAT_SEEN_KEY = "tidegate:beat_seen"
SEEN_FOR_S = 60
ROLL_UP_EVERY_S = 60
WATCH_BUDGETS_EVERY_S = 300
TEND_EVERY_S = 15
DELIVER_EVERY_S = 5
FORGET_EVERY_S = 3600

log = logging.getLogger(__name__)

app = Celery("tidegate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "tick": {
        "task": "scheduler.tasks.tick",
        "schedule": settings.TICK_S,
        # While no worker takes them ticks pile up; all but the newest are dropped unrun.
        "options": {"expires": max(2, settings.TICK_S)},
    },
    "roll_up_usage": {
        "task": "scheduler.tasks.roll_up_usage",
        "schedule": ROLL_UP_EVERY_S,
        "options": {"expires": ROLL_UP_EVERY_S},
    },
    "tend_verifications": {
        "task": "scheduler.tasks.tend_verifications",
        "schedule": TEND_EVERY_S,
        "options": {"expires": TEND_EVERY_S},
    },
    "tend_demo_day": {
        "task": "scheduler.tasks.tend_demo_day",
        "schedule": TEND_EVERY_S,
        "options": {"expires": TEND_EVERY_S},
    },
    "deliver_notices": {
        "task": "notices.tasks.deliver",
        "schedule": DELIVER_EVERY_S,
        "options": {"expires": DELIVER_EVERY_S},
    },
    "forget_notices": {
        "task": "notices.tasks.forget_old",
        "schedule": FORGET_EVERY_S,
        "options": {"expires": FORGET_EVERY_S},
    },
    "watch_budgets": {
        "task": "reports.tasks.watch_budgets",
        "schedule": WATCH_BUDGETS_EVERY_S,
        "options": {"expires": WATCH_BUDGETS_EVERY_S},
    },
    "thin_ledger": {
        "task": "scheduler.tasks.thin_ledger",
        "schedule": ROLL_UP_EVERY_S,
        "options": {"expires": ROLL_UP_EVERY_S},
    },
    "make_due_reports": {
        "task": "reports.tasks.make_due_reports",
        "schedule": ROLL_UP_EVERY_S,
        "options": {"expires": ROLL_UP_EVERY_S},
    },
}


@signals.worker_ready.connect
@signals.heartbeat_sent.connect
def say_worker_is_there(**_: Any) -> None:
    """Leave a sign for ``up``, which waits for the worker and has no Celery of its own."""
    _leave_sign(WORKER_SEEN_KEY)


@signals.beat_init.connect
def say_beat_is_there(**_: Any) -> None:
    _leave_sign(BEAT_SEEN_KEY)


@signals.task_prerun.connect
def name_the_task(task_id: str = "", **_: Any) -> None:
    """Give every log line of a task its id."""
    bind_contextvars(task_id=task_id)


@signals.task_postrun.connect
def forget_the_task(**_: Any) -> None:
    unbind_contextvars("task_id")


def _leave_sign(key: str) -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        with client:
            client.set(key, int(time.time()), ex=SEEN_FOR_S)
    except redis.RedisError as error:  # it is away; the next sign comes in seconds
        log.warning("celery.sign.not_left", extra={"key": key, "error": str(error)})


@signals.setup_logging.connect
def keep_djangos_logging(**_: Any) -> None:
    """Take the place of Celery's own set-up of logging; Django's is in force already."""
