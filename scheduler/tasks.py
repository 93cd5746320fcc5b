"""Celery tasks: one domain call each."""

from __future__ import annotations

import os
import socket

from celery import shared_task
from django.conf import settings

from scheduler.operations import usage_rollup
from scheduler.tick import run

#: A tick looks again for this part of its period, so that ends and submissions are met at once.
LINGER_SHARE = 0.8


@shared_task(name="scheduler.tasks.tick", ignore_result=True)
def tick() -> None:
    """Run one tick, unless another is at work."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    run.run_tick(owner=owner, linger_s=LINGER_SHARE * settings.TICK_S)


@shared_task(name="scheduler.tasks.roll_up_usage", ignore_result=True)
def roll_up_usage() -> None:
    """Roll up the ledger's next closed hours: a day at most, until all are."""
    usage_rollup.roll_up(now=run.utc_now())
