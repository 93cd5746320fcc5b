"""``manage.py end_work``: stop everything that runs, also while the product does not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, ReplicaPhase
from scheduler.operations import workloads
from scheduler.operations.authority import SYSTEM
from scheduler.tick.run import run_tick, utc_now

LOOK_S = 0.3
PATIENCE_S = 330  # the longest grace, and a little


class Command(BaseCommand):
    """Each workload gets SIGTERM, its grace and SIGKILL; it is Stopped and can be started again."""

    help = "Stop all workloads and wait until their processes are gone."

    def handle(self, *args: Any, **options: Any) -> None:
        with _quiet():
            asked = _stop_all()
        self.stdout.write(f"{asked} workloads are stopped; nothing of theirs runs.")


def _stop_all() -> int:
    """Ask all to end, wait until no process is left, and return how many were asked."""
    waiting_or_running = models.Workload.objects.exclude(phase__in=list(END_PHASES)).filter(
        stop_requested=False, deleted_at__isnull=True
    )
    asked = 0
    for workload in waiting_or_running.order_by("id"):
        workloads.stop_workload(workload_id=workload.pk, authority=SYSTEM, now=utc_now())
        asked += 1
    deadline = time.monotonic() + PATIENCE_S
    while left := models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).count():
        if time.monotonic() > deadline:
            raise CommandError(f"{left} replicas have not ended within {PATIENCE_S} s.")
        run_tick(owner="end_work")
        time.sleep(LOOK_S)
    return asked


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings down: where the product is off, Redis is too, and that is no news here."""
    log = logging.getLogger("scheduler")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
