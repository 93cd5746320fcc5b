"""Latencies as counts in classes that grow by a quarter: small, joined by adding, good to a tenth."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

#: Upper ends of the classes in microseconds: ten a decade from a millisecond to a thousand seconds.
ENDS_US = tuple(round(1_000 * 10 ** (step / 10)) for step in range(61))


def class_of(latency_us: int) -> int:
    """Return the number of the class that a latency falls into; the last one has no end."""
    return bisect_left(ENDS_US, latency_us)


def percentile_ms(*, counts: Mapping[int, int], percent: int) -> int | None:
    """Return the latency in milliseconds that ``percent`` of the requests did not exceed.

    Inside a class the requests are taken to lie evenly. None where there are none.
    """
    total = sum(counts.values())
    if not total:
        return None
    wanted = max(1, -(-total * percent // 100))
    passed = 0
    for number in sorted(counts):
        if passed + counts[number] < wanted:
            passed += counts[number]
            continue
        low_us = ENDS_US[number - 1] if number else 0
        high_us = ENDS_US[min(number, len(ENDS_US) - 1)]
        part_us = (high_us - low_us) * (wanted - passed) // counts[number]
        return max(1, (low_us + max(0, part_us)) // 1000)
    return None


def counts_of(pairs: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return counts by class from how they are kept: pairs of class and count."""
    return {pair[0]: pair[1] for pair in pairs}


def joined(*parts: Mapping[int, int]) -> dict[int, int]:
    """Return the counts of all parts together."""
    total: dict[int, int] = {}
    for part in parts:
        for number, count in part.items():
            total[number] = total.get(number, 0) + count
    return total
