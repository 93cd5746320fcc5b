"""A report worked out by hand: plain sums over the instants at which something changed, as fractions.

Nothing of the ledger's arithmetic is used here: this is what it is held against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise

HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """An amount from one instant until another."""

    begin: datetime
    end: datetime
    mgpu: int

    def at(self, begin: datetime, end: datetime) -> int:
        """Return the amount on a span that lies inside or outside."""
        return self.mgpu if self.begin <= begin and end <= self.end else 0


@dataclass(slots=True, kw_only=True)
class Account:
    """What one project held, was guaranteed and left idle."""

    held: list[Stretch] = field(default_factory=list)
    guaranteed: list[Stretch] = field(default_factory=list)
    idle: list[Stretch] = field(default_factory=list)
    active: list[Stretch] = field(default_factory=list)

    def every(self) -> Iterable[Stretch]:
        """Return all its stretches."""
        return (*self.held, *self.guaranteed, *self.idle, *self.active)


#: Of these a report is worked out.
FIGURES = ("allocated", "deserved", "over_quota", "unused", "idle", "unknown")


def work_out(account: Account, *, begin: datetime, end: datetime) -> dict[str, int]:
    """Return the figures of a period, in milli-GPU-microseconds."""
    inside = {at for one in account.every() for at in (one.begin, one.end) if begin < at < end}
    sums = dict.fromkeys(FIGURES, 0)
    for since, until in pairwise(sorted({begin, end, *inside})):
        length = (until - since).days * 24 * HOUR_US + (until - since).seconds * 1_000_000
        length += (until - since).microseconds
        held, quota, idle, active = (
            sum(one.at(since, until) for one in part)
            for part in (account.held, account.guaranteed, account.idle, account.active)
        )
        sums["allocated"] += held * length
        sums["deserved"] += quota * length
        sums["over_quota"] += max(0, held - quota) * length
        sums["unused"] += max(0, quota - held) * length
        sums["idle"] += idle * length
        sums["unknown"] += (held - idle - active) * length
    return sums


def add(rows: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the sums of rows."""
    return {name: sum(row[name] for row in rows) for name in FIGURES}


def hours(amount: int, *, places: int) -> str:
    """Return milli-GPU-microseconds as hours with so many places, halves up."""
    exact = Fraction(amount, 1000 * HOUR_US)
    digits = Decimal(exact.numerator) / Decimal(exact.denominator)
    return str(digits.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP))
