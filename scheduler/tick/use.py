"""CPU and memory that replicas used, to the ledger: one row for each replica and UTC hour grows.

Written every half minute rather than with each sample; what the last seconds of a replica used may be
missing, and so may what was used around a restart of the tick. The figures are of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import HOUR_US
from scheduler.telemetry.base import ReplicaSample

WRITE_EVERY = timedelta(seconds=30)
#: A longer pause between two samples is not measured time.
LONGEST_GAP = timedelta(seconds=15)


@dataclass(slots=True)
class _Mark:
    """Up to where a replica's use is written, and when it was last seen."""

    at: datetime
    cpu_usec: int
    seen_at: datetime


_marks: dict[int, _Mark] = {}


def record(*, samples: Iterable[tuple[models.Replica, ReplicaSample]]) -> None:
    """Write what was used since the last writing, where half a minute is over."""
    seen: dict[int, _Mark] = {}
    for replica, sample in samples:
        if sample.cpu_usec is None or sample.memory_mib is None:
            continue
        mark = _marks.get(replica.pk)
        if mark is None or not _follows(mark, sample):
            mark = _Mark(sample.sampled_at, sample.cpu_usec, sample.sampled_at)
        elif sample.sampled_at - mark.at >= WRITE_EVERY:
            _write(replica, mark, sample)
            mark = _Mark(sample.sampled_at, sample.cpu_usec, sample.sampled_at)
        mark.seen_at = sample.sampled_at
        seen[replica.pk] = mark
    _marks.clear()
    _marks.update(seen)


def _follows(mark: _Mark, sample: ReplicaSample) -> bool:
    assert sample.cpu_usec is not None
    return (
        timedelta(0) <= sample.sampled_at - mark.seen_at <= LONGEST_GAP
        and sample.cpu_usec >= mark.cpu_usec
    )


def _write(replica: models.Replica, mark: _Mark, sample: ReplicaSample) -> None:
    assert sample.cpu_usec is not None
    assert sample.memory_mib is not None
    begin, end = to_us(mark.at), to_us(sample.sampled_at)
    # 1000 milli-cores for each microsecond of one core.
    left, length_us = 1000 * (sample.cpu_usec - mark.cpu_usec), end - begin
    used = left
    while begin < end:
        edge = min(end, (begin // HOUR_US + 1) * HOUR_US)
        part = left if edge == end else used * (edge - begin) // length_us
        left -= part
        _grow(replica, begin, edge, part, sample.memory_mib * (edge - begin))
        begin = edge


def _grow(replica: models.Replica, begin: int, end: int, cpu_used: int, memory_used: int) -> None:
    row = (
        models.ComputeUse.objects.filter(
            replica=replica, from_us__gte=begin // HOUR_US * HOUR_US, to_us=begin
        )
        .order_by("-from_us")
        .first()
    )
    if row is None:
        row = models.ComputeUse(replica=replica, from_us=begin)
    row.to_us = end
    row.cpu_used += cpu_used
    row.memory_used += memory_used
    row.save()
