"""How long a service's answers took: percentiles by minute, of its last hour, and its cold starts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import models
from scheduler.core import latencies

DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPoint:
    """One minute; milliseconds from a request's arrival, time held included."""

    at: datetime
    requests: int
    first_p50_ms: int | None
    first_p95_ms: int | None
    whole_p50_ms: int | None
    whole_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures:
    """A service's latencies of some time, by minute and altogether."""

    points: tuple[LatencyPoint, ...]
    all: LatencyPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStarts:
    """How often in the last 24 hours a request at zero waited for a replica, and for how long."""

    count: int
    median_ms: int | None
    worst_ms: int | None


def read_latencies(*, workload_id: int, since: datetime) -> LatencyFigures:
    """Return a service's latencies since then. The caller has asked whether the reader sees it. One query."""
    rows = list(
        models.ServiceLatency.objects.filter(
            workload_id=workload_id, hourly=False, at__gte=since
        ).order_by("at")
    )
    return LatencyFigures(
        points=tuple(_point(row.at, [row]) for row in rows), all=_point(since, rows)
    )


def read_cold_starts(*, workload_id: int, now: datetime) -> ColdStarts:
    """Return a service's cold starts of the last day, from its events. One query."""
    events = models.WorkloadEvent.objects.filter(
        workload_id=workload_id, code="cold_start", at__gte=now - DAY
    )
    took_ms = [int(params["ms"]) for params in events.values_list("params", flat=True)]
    return ColdStarts(
        count=len(took_ms),
        median_ms=int(statistics.median(took_ms)) if took_ms else None,
        worst_ms=max(took_ms, default=None),
    )


def _point(at: datetime, rows: Sequence[models.ServiceLatency]) -> LatencyPoint:
    first = latencies.joined(*(latencies.counts_of(row.first) for row in rows))
    whole = latencies.joined(*(latencies.counts_of(row.whole) for row in rows))
    return LatencyPoint(
        at=at,
        requests=sum(whole.values()),
        first_p50_ms=latencies.percentile_ms(counts=first, percent=50),
        first_p95_ms=latencies.percentile_ms(counts=first, percent=95),
        whole_p50_ms=latencies.percentile_ms(counts=whole, percent=50),
        whole_p95_ms=latencies.percentile_ms(counts=whole, percent=95),
    )
