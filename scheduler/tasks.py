"""Celery tasks: one domain call each."""

from __future__ import annotations

import os
import socket

from celery import shared_task
from django.conf import settings

from scheduler.operations import quota_replays, retention, usage_rollup
from scheduler.tick import demo_day, run, verifications

#: A tick looks again for this part of its period, so that ends and submissions are met at once.
LINGER_SHARE = 0.8
#: Rolling up is done each minute; a long backlog leaves time for ticks.
ROLL_UP_FOR_S = 10.0
#: So is thinning.
THIN_FOR_S = 3.0


@shared_task(name="scheduler.tasks.tick", ignore_result=True)
def tick() -> None:
    """Run one tick, unless another is at work."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    run.run_tick(owner=owner, linger_s=LINGER_SHARE * settings.TICK_S)


@shared_task(name="scheduler.tasks.roll_up_usage", ignore_result=True)
def roll_up_usage() -> None:
    """Roll up the ledger's closed hours; what is left after some seconds the next run does."""
    usage_rollup.catch_up(now=run.utc_now(), within_s=ROLL_UP_FOR_S)


@shared_task(name="scheduler.tasks.tend_verifications", ignore_result=True)
def tend_verifications() -> None:
    """Begin a run of verifications that waits, and clear up after one that was cut short."""
    verifications.tend(now=run.utc_now())


@shared_task(name="scheduler.tasks.tend_demo_day", ignore_result=True)
def tend_demo_day() -> None:
    """Begin the demonstration's day where it is wanted, and clear up after one that was stopped."""
    demo_day.tend(now=run.utc_now())


@shared_task(name=quota_replays.TASK, ignore_result=True)
def replay_quotas(replay_id: int) -> None:
    """Play a draft of quotas over the last days."""
    quota_replays.carry_out(replay_id=replay_id, now=run.utc_now())


@shared_task(name="scheduler.tasks.thin_ledger", ignore_result=True)
def thin_ledger() -> None:
    """Thin old activity and drop old reasons to wait; what is left after some seconds is done later."""
    now = run.utc_now()
    retention.thin(now=now, after_days=settings.THIN_AFTER_DAYS, within_s=THIN_FOR_S)
    retention.drop_reasons(now=now, after_days=settings.KEEP_REASONS_DAYS, within_s=THIN_FOR_S)
