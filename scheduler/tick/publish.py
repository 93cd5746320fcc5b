"""Step 7 of a tick: the cycle's number and time, and the word that something changed."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import events, models
from scheduler.core.instants import to_us


def finish_cycle(*, now: datetime, took_ms: int) -> None:
    """Count the cycle and tell pages, on commit."""
    with transaction.atomic():
        models.Cluster.objects.filter(pk=1).update(
            cycle=F("cycle") + 1, last_cycle_at=now, last_cycle_ms=took_ms
        )
        cluster = models.Cluster.objects.one()
        transaction.on_commit(lambda: _say(cluster, now))


def _say(cluster: models.Cluster, now: datetime) -> None:
    events.record_tick(at_s=int(now.timestamp()))
    events.publish_changed(cycle=cluster.cycle, at_us=to_us(now), generation=cluster.generation)
