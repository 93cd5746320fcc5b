"""Latencies that gateways measured: added to what is recorded, and thinned as they grow old."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import models
from scheduler.core import latencies

#: By minute for so long, then by hour for so long, then not at all.
MINUTES_KEPT = timedelta(hours=26)
HOURS_KEPT = timedelta(days=30)
#: Rows that one call of ``thin`` joins: the rest is the next call's.
THINNED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Answered requests of a service in one minute: how many by class (``core/latencies.py``)."""

    workload_id: int
    at: datetime
    #: From arrival to the first byte of the answer, and to its last.
    first: Mapping[int, int]
    whole: Mapping[int, int]


@transaction.atomic
def record_latencies(*, rows: Sequence[Latencies]) -> None:
    """Add what a gateway measured. Called by gateways, in batches; others may add to the same minute."""
    known = set(
        models.Workload.objects.filter(pk__in={row.workload_id for row in rows}).values_list(
            "pk", flat=True
        )
    )
    for row in rows:
        if row.workload_id in known:
            _add(row.workload_id, row.at, row.first, row.whole, hourly=False)


@transaction.atomic
def thin(*, now: datetime) -> int:
    """Join minutes that are old into hours and drop hours that are; returns the minutes joined."""
    models.ServiceLatency.objects.filter(hourly=True, at__lt=now - HOURS_KEPT).delete()
    old = list(
        models.ServiceLatency.objects.select_for_update()
        .filter(hourly=False, at__lt=now - MINUTES_KEPT)
        .order_by("at")[:THINNED_AT_ONCE]
    )
    by_hour: dict[tuple[int, datetime], list[models.ServiceLatency]] = defaultdict(list)
    for row in old:
        hour_at = row.at.replace(minute=0, second=0, microsecond=0)
        by_hour[row.workload_id, hour_at].append(row)
    for (workload_id, hour_at), rows in by_hour.items():
        first = latencies.joined(*(latencies.counts_of(row.first) for row in rows))
        whole = latencies.joined(*(latencies.counts_of(row.whole) for row in rows))
        _add(workload_id, hour_at, first, whole, hourly=True)
    models.ServiceLatency.objects.filter(pk__in=[row.pk for row in old]).delete()
    return len(old)


def _add(
    workload_id: int,
    at: datetime,
    first: Mapping[int, int],
    whole: Mapping[int, int],
    *,
    hourly: bool,
) -> None:
    row, _ = models.ServiceLatency.objects.select_for_update().get_or_create(
        workload_id=workload_id, at=at, hourly=hourly
    )
    row.first = sorted(latencies.joined(latencies.counts_of(row.first), first).items())
    row.whole = sorted(latencies.joined(latencies.counts_of(row.whole), whole).items())
    row.save(update_fields=["first", "whole"])
