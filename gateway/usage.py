"""What requests used and how long they took, summed up until it is written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from scheduler.core import latencies
from scheduler.operations.gateway_keys import COUNTS, Use
from scheduler.operations.service_latencies import Latencies

HOUR_S = 3600
HOUR_US = HOUR_S * 1_000_000
MINUTE_S = 60
MINUTE_US = MINUTE_S * 1_000_000


class UsageBook:
    """Counts by key, project, model and hour, until they are written."""

    def __init__(self) -> None:
        #: By key, project, model and hour since 1970; each list is in the order of COUNTS.
        self._sums: dict[tuple[int, int, str, int], list[int]] = {}

    def add(
        self, *, key_id: int, project_id: int, model: str, at_us: int, counts: Iterable[int]
    ) -> None:
        """Add one request's counts, in the order of COUNTS, to the hour of ``at_us``."""
        self._add((key_id, project_id, model, at_us // HOUR_US), counts)

    def take(self) -> list[Use]:
        """Return all that was added since, once."""
        sums, self._sums = self._sums, {}
        return [_use(name, counts) for name, counts in sums.items()]

    def put_back(self, uses: Iterable[Use]) -> None:
        """Take uses back that could not be written."""
        for use in uses:
            hour = int(use.hour_at.timestamp()) // HOUR_S
            name = (use.key_id, use.project_id, use.model, hour)
            self._add(name, [getattr(use, count) for count in COUNTS])

    def _add(self, name: tuple[int, int, str, int], counts: Iterable[int]) -> None:
        known = self._sums.get(name)
        if known is None:
            self._sums[name] = list(counts)
            return
        for position, count in enumerate(counts):
            known[position] += count


class LatencyBook:
    """Latencies of answered requests by service and minute, until they are written."""

    def __init__(self) -> None:
        #: By service and minute since 1970: counts by class, of first bytes and of whole answers.
        self._counts: dict[tuple[int, int], tuple[dict[int, int], dict[int, int]]] = {}

    def add(self, *, workload_id: int, at_us: int, first_us: int, whole_us: int) -> None:
        """Add one answer that was complete at ``at_us``; both times are from the request's arrival."""
        name = (workload_id, at_us // MINUTE_US)
        known = self._counts.get(name)
        if known is None:
            known = self._counts[name] = ({}, {})
        for counts, latency_us in zip(known, (first_us, whole_us), strict=True):
            number = latencies.class_of(latency_us)
            counts[number] = counts.get(number, 0) + 1

    def take(self) -> list[Latencies]:
        """Return all that was added since, once."""
        counts, self._counts = self._counts, {}
        return [
            Latencies(
                workload_id=workload_id,
                at=datetime.fromtimestamp(minute * MINUTE_S, tz=UTC),
                first=first,
                whole=whole,
            )
            for (workload_id, minute), (first, whole) in counts.items()
        ]

    def put_back(self, rows: Iterable[Latencies]) -> None:
        """Take rows back that could not be written."""
        for row in rows:
            name = (row.workload_id, int(row.at.timestamp()) // MINUTE_S)
            first, whole = self._counts.get(name, ({}, {}))
            self._counts[name] = (
                latencies.joined(first, row.first),
                latencies.joined(whole, row.whole),
            )


def _use(name: tuple[int, int, str, int], counts: Iterable[int]) -> Use:
    key_id, project_id, model, hour = name
    return Use(
        key_id=key_id,
        project_id=project_id,
        model=model,
        hour_at=datetime.fromtimestamp(hour * HOUR_S, tz=UTC),
        **dict(zip(COUNTS, counts, strict=True)),
    )
