"""What one workload held and did with it over time, out of the ledger: computing, idle, and unknown.

The last 24 hours of its life in columns of equal length. Each column has exact integrals; what no
sample covers is unknown, and unknown is neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from scheduler import models
from scheduler.core.idle import READING_KEPT_US
from scheduler.core.instants import from_us, to_us
from scheduler.queries.visibility import Visibility

WINDOW = timedelta(hours=24)
COLUMNS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class UseStep:
    """A stretch of columns that are alike; amounts are what was held, did and did nothing on average."""

    first: int
    columns: int
    at: datetime
    held_mgpu: int
    computing_mgpu: int
    idle_mgpu: int

    @property
    def unknown_mgpu(self) -> int:
        """What was held and not measured."""
        return self.held_mgpu - self.computing_mgpu - self.idle_mgpu


@dataclass(frozen=True, slots=True, kw_only=True)
class UseOverTime:
    """The window, its stretches, and the exact sums over it in mGPU-microseconds."""

    since: datetime
    until: datetime
    #: The whole life is in the window.
    whole: bool
    most_mgpu: int
    steps: tuple[UseStep, ...]
    held: int
    computing: int
    idle: int

    @property
    def unknown(self) -> int:
        """What was held and not measured."""
        return max(0, self.held - self.computing - self.idle)


#: From, to, amount: in microseconds and mGPU.
_Piece = tuple[int, int, int]


def read_use(*, visible: Visibility, workload_id: int, now: datetime) -> UseOverTime | None:
    """Return it, or None where nothing was ever held, or the reader sees no such workload. Three queries."""
    row = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
    ).values_list("ended_at", flat=True)
    found = list(row)
    if not found:
        return None
    intervals = models.AllocationInterval.objects.filter(workload_id=workload_id)
    rows = list(intervals.order_by("from_us").values_list("from_us", "to_us", "mgpu"))
    if not rows:
        return None
    now_us = to_us(now)
    held = [(begin, now_us if end is None else end, mgpu) for begin, end, mgpu in rows]
    until_us = now_us if found[0] is None else max(end for _begin, end, _mgpu in held)
    begin_us = max(held[0][0], until_us - WINDOW // timedelta(microseconds=1))
    computing, idle = _activity(workload_id, begin_us, now_us)
    return summed(
        held=held,
        computing=computing,
        idle=idle,
        window=(begin_us, until_us),
    )


def summed(
    *,
    held: list[_Piece],
    computing: list[_Piece],
    idle: list[_Piece],
    window: tuple[int, int],
) -> UseOverTime | None:
    """Return the columns of a window, those that are alike as one, or None where the window is empty."""
    begin_us, until_us = window
    if until_us <= begin_us:
        return None
    edges = [begin_us + (until_us - begin_us) * n // COLUMNS for n in range(COLUMNS + 1)]
    columns = [_columns(pieces, edges) for pieces in (held, computing, idle)]
    averages = list(zip(*(_averages(each, edges) for each in columns), strict=True))
    steps: list[UseStep] = []
    at = 0
    for amounts, alike in groupby(averages):
        count = len(list(alike))
        held_mgpu, computing_mgpu = amounts[0], min(amounts[0], amounts[1])
        steps.append(
            UseStep(
                first=at,
                columns=count,
                at=from_us(edges[at]),
                held_mgpu=held_mgpu,
                computing_mgpu=computing_mgpu,
                idle_mgpu=min(held_mgpu - computing_mgpu, amounts[2]),
            )
        )
        at += count
    return UseOverTime(
        since=from_us(begin_us),
        until=from_us(until_us),
        whole=begin_us <= held[0][0],
        most_mgpu=max(step.held_mgpu for step in steps),
        steps=tuple(steps),
        held=sum(columns[0]),
        computing=sum(columns[1]),
        idle=sum(columns[2]),
    )


def _columns(pieces: Iterable[_Piece], edges: list[int]) -> list[int]:
    """Return what pieces hold in each column, in mGPU-microseconds."""
    begin_us, until_us = edges[0], edges[-1]
    sums = [0] * COLUMNS
    for from_us_, to_us_, mgpu in pieces:
        first_us, last_us = max(from_us_, begin_us), min(to_us_, until_us)
        if last_us <= first_us:
            continue
        at = min(COLUMNS - 1, (first_us - begin_us) * COLUMNS // (until_us - begin_us))
        while at and edges[at] > first_us:
            at -= 1
        while at < COLUMNS and edges[at] < last_us:
            inside = min(last_us, edges[at + 1]) - max(first_us, edges[at])
            sums[at] += max(0, inside) * mgpu
            at += 1
    return sums


def _averages(sums: list[int], edges: list[int]) -> list[int]:
    return [
        (value + (edges[n + 1] - edges[n]) // 2) // max(1, edges[n + 1] - edges[n])
        for n, value in enumerate(sums)
    ]


def _activity(workload_id: int, begin_us: int, now_us: int) -> tuple[list[_Piece], list[_Piece]]:
    rows = models.ActivityInterval.objects.filter(
        replica__workload_id=workload_id, to_us__gt=begin_us
    ).values_list("idle", "mgpu", "from_us", "to_us", "open", "replica__ended_at")
    computing: list[_Piece] = []
    idle: list[_Piece] = []
    for is_idle, mgpu, from_us_, to_us_, is_open, ended_at in rows:
        goes_on = is_open and ended_at is None and now_us - to_us_ <= READING_KEPT_US
        piece = (from_us_, max(to_us_, now_us) if goes_on else to_us_, mgpu)
        (idle if is_idle else computing).append(piece)
    return computing, idle
