"""How well a guarantee was kept: when requests were entitled, how long they waited, when there was a lack.

A request is entitled while what its project holds and what it asks for fit into its guarantee, and what
the department's projects hold inside theirs leaves room in the department's. Times are UTC microseconds,
amounts milli-GPU; nothing is rounded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scheduler.core.usage import Step

#: From and to.
Span = tuple[int, int]


class Room:
    """What of a guarantee is not held, over time: guaranteed minus held."""

    __slots__ = ("_amounts", "_times")

    def __init__(self, *, held: Iterable[Step], guaranteed: Iterable[Step]) -> None:
        changes: dict[int, int] = defaultdict(int)
        for steps, sign in ((held, -1), (guaranteed, 1)):
            for from_us, to_us, mgpu in steps:
                if from_us < to_us:
                    changes[from_us] += sign * mgpu
                    changes[to_us] -= sign * mgpu
        self._times = sorted(changes)
        self._amounts: list[int] = []
        amount = 0
        for at_us in self._times:
            amount += changes[at_us]
            self._amounts.append(amount)

    def before(self, *, at_us: int) -> int:
        """Return what was left just before an instant; negative where more was held."""
        at = bisect_left(self._times, at_us) - 1
        return self._amounts[at] if at >= 0 else 0

    def spans(self, *, mgpu: int, from_us: int, to_us: int) -> list[Span]:
        """Return when ``mgpu`` fitted, inside [from_us, to_us), in order."""
        found: list[Span] = []
        at = bisect_right(self._times, from_us) - 1
        begin = from_us
        while begin < to_us:
            end = self._times[at + 1] if at + 1 < len(self._times) else to_us
            end = min(end, to_us)
            if (self._amounts[at] if at >= 0 else 0) >= mgpu:
                if found and found[-1][1] == begin:
                    found[-1] = (found[-1][0], end)
                else:
                    found.append((begin, end))
            begin, at = end, at + 1
        return found


def within(*, held: Iterable[Step], guaranteed: Iterable[Step]) -> list[Step]:
    """Return what was held inside a guarantee: the lesser of both over time.

    What a sibling borrows beyond it gives way, so only this counts against a department's guarantee.
    """
    changes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for which, steps in enumerate((held, guaranteed)):
        for from_us, to_us, mgpu in steps:
            changes[from_us][which] += mgpu
            changes[to_us][which] -= mgpu
    found: list[Step] = []
    amounts, times = [0, 0], sorted(changes)
    for at_us, until_us in pairwise(times):
        amounts = [amount + change for amount, change in zip(amounts, changes[at_us], strict=True)]
        if min(amounts) > 0:
            found.append((at_us, until_us, min(amounts)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: for how much, since when, and what became of it."""

    mgpu: int
    asked_us: int
    #: When its devices were booked, or it was given up, or now.
    until_us: int
    #: When it ran; None: not yet, or never.
    running_us: int | None
    #: Its devices were booked.
    booked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of the requests of one queue."""

    #: From entitled to running, of those that ran, in order of size.
    waits_us: tuple[int, ...] = ()
    #: The same up to now, of those that still wait.
    open_us: tuple[int, ...] = ()
    #: Time in which an entitled request waited.
    short_us: int = 0

    def percentile(self, percent: int) -> int | None:
        """Return the least wait that so many percent did not exceed; None where nothing ran."""
        if not self.waits_us:
            return None
        rank = -(-percent * len(self.waits_us) // 100)
        return self.waits_us[max(0, rank - 1)]

    @property
    def worst_us(self) -> int | None:
        """Return the longest wait, those that go on among them."""
        return max((*self.waits_us, *self.open_us), default=None)


def judge(*, requests: Iterable[Asked], rooms: Sequence[Room], period: Span) -> Kept:
    """Return how requests fared in a period: waits by when they ended, the lack as far as inside it."""
    waits: list[int] = []
    still: list[int] = []
    short: list[Span] = []
    for request in requests:
        entitled = entitled_spans(request=request, rooms=rooms)
        for from_us, to_us in entitled:
            begin, end = max(from_us, period[0]), min(to_us, period[1])
            if begin < end:
                short.append((begin, end))
        since = _since(request, entitled, rooms)
        if since is None:
            continue
        if not request.booked:
            still.append(request.until_us - since)
        elif request.running_us is not None and period[0] <= request.running_us < period[1]:
            waits.append(max(0, request.running_us - since))
    return Kept(
        waits_us=tuple(sorted(waits)), open_us=tuple(sorted(still)), short_us=measure(spans=short)
    )


def entitled_spans(*, request: Asked, rooms: Sequence[Room]) -> list[Span]:
    """Return when a waiting request fitted into the guarantees of all levels."""
    spans = [(request.asked_us, request.until_us)] if request.asked_us < request.until_us else []
    for room in rooms:
        spans = [
            part
            for from_us, to_us in spans
            for part in room.spans(mgpu=request.mgpu, from_us=from_us, to_us=to_us)
        ]
    return _joined(spans)


def _since(request: Asked, entitled: Sequence[Span], rooms: Sequence[Room]) -> int | None:
    """Return since when it was entitled without a break; None where it was not in the end."""
    if request.asked_us >= request.until_us:
        fits = all(room.before(at_us=request.until_us) >= request.mgpu for room in rooms)
        return request.until_us if request.booked and fits else None
    return entitled[-1][0] if entitled and entitled[-1][1] == request.until_us else None


def measure(*, spans: Iterable[Span]) -> int:
    """Return for how long any of the spans held."""
    return sum(to_us - from_us for from_us, to_us in _joined(sorted(spans)))


def _joined(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for from_us, to_us in spans:
        if found and from_us <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], to_us))
        else:
            found.append((from_us, to_us))
    return found
