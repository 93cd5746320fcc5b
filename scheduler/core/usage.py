"""What the ledger's figures are: exact integrals of step functions over time, as integers.

Times are UTC microseconds. A GPU figure is in milli-GPU-microseconds, a CPU figure in
milli-core-microseconds, a memory figure in MiB-microseconds, money in ten-thousandths of the price
of one milli-GPU-microsecond. Nothing is rounded here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

#: (from, to, amount): the amount holds on [from, to).
Step = tuple[int, int, int]
#: (from, price of a GPU hour in parts), oldest first; the last one stays in force.
Prices = Sequence[tuple[int, int]]

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


class Meter:
    """Adds up one row: what is held, guaranteed and measured, over each [cuts[i], cuts[i+1]).

    A row is one project in one pool within one department, or whatever else is asked for; only for
    a project in a pool (and for a department in a pool) does over quota mean anything.
    """

    __slots__ = ("_changes", "_cuts", "_sums")

    def __init__(self, *, cuts: Sequence[int]) -> None:
        self._cuts = cuts
        self._sums = {name: [0] * (len(cuts) - 1) for name in NAMES}
        #: By how much held - guaranteed changes at an instant.
        self._changes: dict[int, int] = defaultdict(int)

    def hold(
        self,
        *,
        step: Step,
        cpu_milli: int = 0,
        memory_mib: int = 0,
        prices: Prices = (),
    ) -> None:
        """Add what one replica holds: GPU by ``step``, CPU and memory for the same time."""
        sums = self._sums
        for slot, length_us in self._parts(step):
            sums["allocated"][slot] += step[2] * length_us
            sums["cpu"][slot] += cpu_milli * length_us
            sums["memory"][slot] += memory_mib * length_us
        self._change(step, 1)
        self._charge("cost", step, prices)

    def guarantee(self, *, step: Step) -> None:
        """Add a guarantee that was in force."""
        self._add("deserved", step)
        self._change(step, -1)

    def measure(self, *, step: Step, idle: bool, prices: Prices = ()) -> None:
        """Add time in which samples said that what was held was idle, or active."""
        self._add("idle" if idle else "active", step)
        if idle:
            self._charge("idle_cost", step, prices)

    def use(self, *, from_us: int, to_us: int, cpu_used: int, memory_used: int) -> None:
        """Add CPU and memory that were used, spread evenly over [from_us, to_us)."""
        length_us = to_us - from_us
        self._add("cpu_used", (from_us, to_us, cpu_used // length_us))
        self._add("memory_used", (from_us, to_us, memory_used // length_us))

    def rows(self) -> list[Figures]:
        """Return the figures of each slot."""
        self._sums["over_quota"], self._sums["unused"] = self._differences()
        return [
            Figures(**dict(zip(NAMES, values, strict=True)))
            for values in zip(*(self._sums[name] for name in NAMES), strict=True)
        ]

    def _parts(self, step: Step) -> Iterator[tuple[int, int]]:
        """Yield (slot, length) of the parts of a step inside the cuts."""
        cuts = self._cuts
        begin, end = max(step[0], cuts[0]), min(step[1], cuts[-1])
        slot = bisect_right(cuts, begin) - 1
        while begin < end:
            until = min(end, cuts[slot + 1])
            yield slot, until - begin
            begin = until
            slot += 1

    def _add(self, name: str, step: Step) -> None:
        column = self._sums[name]
        for slot, length_us in self._parts(step):
            column[slot] += step[2] * length_us

    def _charge(self, name: str, step: Step, prices: Prices) -> None:
        for charged in at_price(step=step, prices=prices):
            self._add(name, charged)

    def _change(self, step: Step, sign: int) -> None:
        begin, end = max(step[0], self._cuts[0]), min(step[1], self._cuts[-1])
        if begin < end:
            self._changes[begin] += sign * step[2]
            self._changes[end] -= sign * step[2]

    def _differences(self) -> tuple[list[int], list[int]]:
        """Return, by slot, the integrals of max(0, a - q) and of max(0, q - a).

        One walk over the instants at which either changes; the cuts are among them, so that no
        stretch lies in two slots.
        """
        cuts = self._cuts
        over, under = [0] * (len(cuts) - 1), [0] * (len(cuts) - 1)
        slot, difference, since = -1, 0, cuts[0]
        for at_us in sorted({*cuts, *self._changes}):
            if difference > 0:
                over[slot] += difference * (at_us - since)
            elif difference < 0:
                under[slot] -= difference * (at_us - since)
            difference += self._changes.get(at_us, 0)
            since = at_us
            while slot + 2 < len(cuts) and cuts[slot + 1] <= at_us:
                slot += 1
        return over, under


def sum_figures(*, rows: Iterable[Figures]) -> Figures:
    """Return the sum of rows."""
    sums = [0] * len(NAMES)
    for row in rows:
        for at, value in enumerate(row.values()):
            sums[at] += value
    return Figures(**dict(zip(NAMES, sums, strict=True)))


def at_price(*, step: Step, prices: Prices) -> list[Step]:
    """Return what a step of milli-GPU costs over time, cut where the price changes.

    Before the first price nothing is charged.
    """
    from_us, to_us, mgpu = step
    charged = []
    for at, (since_us, price) in enumerate(prices):
        until_us = prices[at + 1][0] if at + 1 < len(prices) else to_us
        begin, end = max(from_us, since_us), min(to_us, until_us)
        if begin < end and price:
            charged.append((begin, end, price * mgpu))
    return charged


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
        "unknown >= 0": row.unknown >= 0,
        "within quota >= 0": row.within_quota >= 0,
        "idle cost <= cost": row.idle_cost <= row.cost,
    }
    return [name for name, holds in checks.items() if not holds]
