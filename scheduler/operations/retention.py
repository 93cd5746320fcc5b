"""Old activity is thinned and old reasons to wait are dropped, in small steps; no figure changes.

After some days what samples said of a replica is kept by quarter of an hour: one idle and one active
stretch at most, as long as those before. All time zones begin their days on a quarter, so that each
figure by hour, day or month stays what it was, to the last digit. A price that begins inside a quarter
divides it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from django.db import transaction

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import HOUR_US

QUARTER_US = HOUR_US // 4
#: Rows that are dropped in one transaction.
STEP = 500

#: (from, to, idle)
Part = tuple[int, int, bool]


def thin(*, now: datetime, after_days: int, within_s: float) -> int:
    """Thin activity older than so many days, hour by hour; return by how many rows there are fewer."""
    until, fewer = time.monotonic() + within_s, 0
    last_us = to_us(now - timedelta(days=after_days)) // HOUR_US * HOUR_US
    while time.monotonic() < until:
        with transaction.atomic():
            models.UsageRollup.objects.get_or_create(pk=1)
            state = models.UsageRollup.objects.select_for_update().get(pk=1)
            begin = state.thinned_us if state.thinned_us is not None else _first_hour()
            if begin is None or begin + HOUR_US > last_us:
                return fewer
            found = _thin_hour(begin, begin + HOUR_US)
            fewer += found
            state.thinned_us = begin + HOUR_US if found else _next_hour(begin + HOUR_US, last_us)
            state.save(update_fields=["thinned_us"])
    return fewer


def drop_reasons(*, now: datetime, after_days: int, within_s: float) -> int:
    """Drop why ended work waited, longer than so many days ago; return how many decisions."""
    until, dropped = time.monotonic() + within_s, 0
    old = models.Decision.objects.filter(
        verb="deny", at__lt=now - timedelta(days=after_days), workload__ended_at__isnull=False
    ).order_by("id")
    while time.monotonic() < until:
        ids = list(old.values_list("pk", flat=True)[:STEP])
        if not ids:
            break
        with transaction.atomic():
            models.WorkloadEvent.objects.filter(decision__in=ids, code="waits").delete()
            models.Decision.objects.filter(pk__in=ids).delete()
        dropped += len(ids)
    return dropped


def _first_hour() -> int | None:
    first = (
        models.ActivityInterval.objects.filter(open=False)
        .order_by("from_us")
        .values_list("from_us", flat=True)
        .first()
    )
    return None if first is None else first // HOUR_US * HOUR_US


def _next_hour(from_us: int, last_us: int) -> int:
    """Return the next hour in which there is something to thin, so that empty years cost nothing."""
    following = (
        models.ActivityInterval.objects.filter(open=False, from_us__gte=from_us)
        .order_by("from_us")
        .values_list("from_us", flat=True)
        .first()
    )
    return min(last_us, max(from_us, (following or from_us) // HOUR_US * HOUR_US))


def _thin_hour(begin: int, end: int) -> int:
    by_replica: dict[int, list[models.ActivityInterval]] = defaultdict(list)
    # One that began earlier stays as it is: it has been looked at with its own hour.
    rows = models.ActivityInterval.objects.filter(open=False, from_us__gte=begin, from_us__lt=end)
    for row in rows.order_by("from_us", "pk"):
        by_replica[row.replica_id].append(row)
    cuts = _cuts(begin, end)
    fewer = 0
    for of_replica in by_replica.values():
        before = [(row.from_us, row.to_us, row.idle) for row in of_replica]
        after = thinned(parts=before, cuts=cuts)
        if len(after) >= len(before):
            continue
        first = of_replica[0]
        models.ActivityInterval.objects.filter(pk__in=[row.pk for row in of_replica]).delete()
        models.ActivityInterval.objects.bulk_create(
            models.ActivityInterval(
                replica_id=first.replica_id,
                project_id=first.project_id,
                pool_id=first.pool_id,
                mgpu=first.mgpu,
                open=False,
                from_us=from_us,
                to_us=to_us_,
                idle=idle,
            )
            for from_us, to_us_, idle in after
        )
        fewer += len(before) - len(after)
    return fewer


def _cuts(begin: int, end: int) -> list[int]:
    """Return the quarters of an hour, and the instants in it at which a price begins."""
    prices = {to_us(at) for at in models.GpuPrice.objects.values_list("from_at", flat=True)}
    inside = {at for at in prices if begin < at < end}
    return sorted({*range(begin, end + 1, QUARTER_US), *inside})


def thinned(*, parts: Iterable[Part], cuts: Sequence[int]) -> list[Part]:
    """Return parts of one replica with one idle and one active stretch at most between two cuts.

    What lies outside the cuts stays as it is; equal stretches that touch become one.
    """
    kept: list[Part] = []
    inside: dict[int, list[Part]] = defaultdict(list)
    for from_us, to_us_, idle in parts:
        if from_us < cuts[0]:
            kept.append((from_us, min(to_us_, cuts[0]), idle))
        if to_us_ > cuts[-1]:
            kept.append((max(from_us, cuts[-1]), to_us_, idle))
        for begin, end in pairwise(cuts):
            if max(from_us, begin) < min(to_us_, end):
                inside[begin].append((max(from_us, begin), min(to_us_, end), idle))
    for of_slot in inside.values():
        at = min(part[0] for part in of_slot)
        # What came first stays first: an unbroken stretch goes on over the cut.
        for idle in dict.fromkeys(part[2] for part in of_slot):
            length = sum(b - a for a, b, is_idle in of_slot if is_idle is idle)
            kept.append((at, at + length, idle))
            at += length
    found: list[Part] = []
    for part in sorted(kept):
        if found and found[-1][1] == part[0] and found[-1][2] is part[2]:
            found[-1] = (found[-1][0], part[1], part[2])
        else:
            found.append(part)
    return found
