"""The word that something changed: as soon as a plan is in the tables, and, step 7, when a cycle ends."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import events, models
from scheduler.core.instants import to_us


def say_decided(*, now: datetime) -> None:
    """Tell pages and gateways what was decided before any engine acts on it.

    A page then shows a reclaim before its victim's process gets the signal, and a gateway sends no
    request to a replica that is about to be told to leave. Only what is committed is told.
    """
    cluster = models.Cluster.objects.one()
    _say(cluster, now)


def finish_cycle(*, now: datetime, took_ms: int) -> None:
    """Count the cycle and tell pages, on commit."""
    with transaction.atomic():
        models.Cluster.objects.filter(pk=1).update(
            cycle=F("cycle") + 1, last_cycle_at=now, last_cycle_ms=took_ms
        )
        cluster = models.Cluster.objects.one()
        transaction.on_commit(lambda: _end(cluster, now))


def _end(cluster: models.Cluster, now: datetime) -> None:
    events.record_tick(at_s=int(now.timestamp()))
    _say(cluster, now)


def _say(cluster: models.Cluster, now: datetime) -> None:
    events.publish_changed(cycle=cluster.cycle, at_us=to_us(now), generation=cluster.generation)
