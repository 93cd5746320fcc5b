"""What the ledger's figures are: exact integrals of step functions over time, as integers.

Times are UTC microseconds. A GPU figure is in milli-GPU-microseconds, a CPU figure in
milli-core-microseconds, a memory figure in MiB-microseconds, money in ten-thousandths of the price
of one milli-GPU-microsecond. Nothing is rounded here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

#: (from, to, amount): the amount holds on [from, to).
Step = tuple[int, int, int]

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
#: Milli-GPU-microseconds (or milli-core-microseconds) in one hour of one GPU (or core).
GPU_HOUR = 1000 * HOUR_US
#: MiB-microseconds in one hour of one GiB.
GIB_HOUR = 1024 * HOUR_US
#: Parts in which prices are kept.
PRICE_PARTS = 10_000
#: Units of a cost figure in one whole unit of the currency.
CURRENCY = PRICE_PARTS * GPU_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One row's integrals. Sums of rows are rows."""

    allocated: int = 0
    #: Guaranteed, used or not.
    deserved: int = 0
    #: Held above the guarantee, per project and pool before summing.
    over_quota: int = 0
    #: Guaranteed and not held, per project and pool before summing.
    unused: int = 0
    idle: int = 0
    active: int = 0
    cpu: int = 0
    memory: int = 0
    cpu_used: int = 0
    memory_used: int = 0
    cost: int = 0
    idle_cost: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in NAMES})

    @property
    def unknown(self) -> int:
        """Allocated, but no sample said whether active. Unknown is not idle."""
        return self.allocated - self.idle - self.active

    @property
    def within_quota(self) -> int:
        """Allocated inside the guarantee."""
        return self.allocated - self.over_quota

    def values(self) -> tuple[int, ...]:
        """Return the integrals in the order of ``NAMES``."""
        return tuple(getattr(self, name) for name in NAMES)


NAMES = tuple(one.name for one in fields(Figures))
NOTHING = Figures()


@dataclass(slots=True, kw_only=True)
class QueueFacts:
    """The step functions of one project in one pool, within one department."""

    held: list[Step] = field(default_factory=list)
    quota: list[Step] = field(default_factory=list)
    idle: list[Step] = field(default_factory=list)
    active: list[Step] = field(default_factory=list)
    cpu: list[Step] = field(default_factory=list)
    memory: list[Step] = field(default_factory=list)
    cpu_used: list[Step] = field(default_factory=list)
    memory_used: list[Step] = field(default_factory=list)
    cost: list[Step] = field(default_factory=list)
    idle_cost: list[Step] = field(default_factory=list)


#: Of each figure that is a plain integral: its name and the name of its step function.
_PLAIN = (
    ("allocated", "held"),
    ("deserved", "quota"),
    ("idle", "idle"),
    ("active", "active"),
    ("cpu", "cpu"),
    ("memory", "memory"),
    ("cpu_used", "cpu_used"),
    ("memory_used", "memory_used"),
    ("cost", "cost"),
    ("idle_cost", "idle_cost"),
)


def integrate(*, steps: Iterable[Step], cuts: Sequence[int]) -> list[int]:
    """Return the integral of the sum of ``steps`` over each [cuts[i], cuts[i+1])."""
    totals = [0] * (len(cuts) - 1)
    first, last = cuts[0], cuts[-1]
    for from_us, to_us, amount in steps:
        begin, end = max(from_us, first), min(to_us, last)
        if begin >= end:
            continue
        slot = bisect_right(cuts, begin) - 1
        while begin < end:
            until = min(end, cuts[slot + 1])
            totals[slot] += amount * (until - begin)
            begin = until
            slot += 1
    return totals


def integrate_difference(
    *, held: Iterable[Step], quota: Iterable[Step], cuts: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return, for each [cuts[i], cuts[i+1]), the integrals of max(0, a - q) and of max(0, q - a).

    a is the sum of ``held`` and q that of ``quota``. One walk over the instants at which either
    changes; the cuts are among them, so no stretch lies in two slots.
    """
    over = [0] * (len(cuts) - 1)
    under = [0] * (len(cuts) - 1)
    changes = _changes(held, quota, cuts)
    slot, difference, since = -1, 0, cuts[0]
    for at_us in sorted(changes):
        if difference > 0:
            over[slot] += difference * (at_us - since)
        elif difference < 0:
            under[slot] -= difference * (at_us - since)
        difference += changes[at_us]
        since = at_us
        while slot + 2 < len(cuts) and cuts[slot + 1] <= at_us:
            slot += 1
    return over, under


def _changes(held: Iterable[Step], quota: Iterable[Step], cuts: Sequence[int]) -> dict[int, int]:
    """Return by how much a - q changes at each instant inside the cuts."""
    first, last = cuts[0], cuts[-1]
    changes: dict[int, int] = defaultdict(int, dict.fromkeys(cuts, 0))
    for steps, sign in ((held, 1), (quota, -1)):
        for from_us, to_us, amount in steps:
            begin, end = max(from_us, first), min(to_us, last)
            if begin < end:
                changes[begin] += sign * amount
                changes[end] -= sign * amount
    return changes


def figures_of(*, facts: QueueFacts, cuts: Sequence[int]) -> list[Figures]:
    """Return the figures of one project in one pool for each [cuts[i], cuts[i+1])."""
    columns = {
        name: integrate(steps=getattr(facts, source), cuts=cuts) for name, source in _PLAIN
    }
    columns["over_quota"], columns["unused"] = integrate_difference(
        held=facts.held, quota=facts.quota, cuts=cuts
    )
    names = tuple(columns)
    return [
        Figures(**dict(zip(names, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]


def sum_figures(rows: Iterable[Figures]) -> Figures:
    """Return the sum of rows."""
    sums = [0] * len(NAMES)
    for row in rows:
        for at, value in enumerate(row.values()):
            sums[at] += value
    return Figures(**dict(zip(NAMES, sums, strict=True)))


def clip(*, step: Step, within: tuple[int, int]) -> Step | None:
    """Return the part of a step that lies in [from, to), or None."""
    begin, end = max(step[0], within[0]), min(step[1], within[1])
    return (begin, end, step[2]) if begin < end else None


def at_price(
    *, from_us: int, to_us: int, mgpu: int, prices: Sequence[tuple[int, int]]
) -> list[Step]:
    """Return what ``mgpu`` costs over time. ``prices``: (from, price in parts), oldest first.

    Before the first price nothing is charged.
    """
    steps = []
    for at, (since_us, price) in enumerate(prices):
        until_us = prices[at + 1][0] if at + 1 < len(prices) else to_us
        step = clip(step=(since_us, until_us, price * mgpu), within=(from_us, to_us))
        if step is not None and price:
            steps.append(step)
    return steps


def problems(*, row: Figures) -> list[str]:
    """Return which of a row's identities don't hold; empty for a sound one."""
    checks = {
        "allocation = within quota + over quota": row.within_quota + row.over_quota
        == row.allocated,
        "allocation - over quota + unused guarantee = deserved": row.allocated
        - row.over_quota
        + row.unused
        == row.deserved,
        "allocation = active + idle + unknown": row.active + row.idle + row.unknown
        == row.allocated,
        "unknown is not negative": row.unknown >= 0,
        "within quota is not negative": row.within_quota >= 0,
        "idle cost is within cost": row.idle_cost <= row.cost,
    }
    return [name for name, holds in checks.items() if not holds]
