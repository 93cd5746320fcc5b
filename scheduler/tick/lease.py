"""One tick at a time. Economy only: the fence in apply is what keeps two plans from both winning."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from scheduler import models

#: How long an owner is believed to be at work without saying so again.
LEASE_S = 15


def take(*, owner: str, now: datetime) -> bool:
    """Take or renew the lease; False while another owner holds it. It ends by itself."""
    models.Cluster.objects.one()
    free = Q(tick_until__isnull=True) | Q(tick_until__lt=now) | Q(tick_owner=owner)
    taken = models.Cluster.objects.filter(free, pk=1).update(
        tick_owner=owner, tick_until=now + timedelta(seconds=LEASE_S)
    )
    return bool(taken)


def give_back(*, owner: str) -> None:
    """Give the lease back, if it is still the owner's."""
    models.Cluster.objects.filter(pk=1, tick_owner=owner).update(tick_owner="", tick_until=None)
