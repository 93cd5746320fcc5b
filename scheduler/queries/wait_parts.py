"""Where a workload's waiting went: its time without a place by the recorded reason, and its starts.

In whole microseconds: the parts of waiting add up to the waiting, without a rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import Kind, Reason
from scheduler.queries.reasons import name_of
from scheduler.queries.visibility import Visibility
from scheduler.queries.waits import gaps, lives_of

#: Beside the core's reasons.
NEXT_CYCLE, UNRECORDED, VACATING, ASLEEP, STARTING = (
    "next_cycle",
    "unrecorded",
    "vacating",
    "asleep",
    "starting",
)
#: The scheduler looks more often than this; what waited longer without a reason has lost its record.
_LOOKS_WITHIN_US = 10_000_000
_SERVED = "served_by_"
_SERVED_CODES = tuple(_SERVED + rule for rule in ("reclaim", "preempt", "consolidate"))

_NAMES = {
    NEXT_CYCLE: gettext_noop("Until the scheduler's next cycle"),
    UNRECORDED: gettext_noop("No reason on record"),
    VACATING: gettext_noop("Its place was being vacated"),
    STARTING: gettext_noop("Placed, and starting"),
}
#: How a part looks: by what could have made it shorter.
_TONES = {
    Reason.OVER_LIMIT: "quota",
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: "quota",
    Reason.BACKING_OFF: "failed",
    Reason.STARTS_PAUSED: "control",
    Reason.HELD_BACK: "control",
    NEXT_CYCLE: "brief",
    UNRECORDED: "brief",
    STARTING: "start",
}

#: From and to in microseconds.
Span = tuple[int, int]
#: Since when which reason held, in microseconds.
Note = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPart:
    """One reason with all the time that it took. ``from_permille``: where it begins on the bar."""

    code: str
    name: str
    tone: str
    us: int
    from_permille: int
    permille: int

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.us / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """All of one workload's waiting. ``spells``: how often it waited; ``open``: it does so now."""

    parts: tuple[WaitPart, ...]
    waited_us: int
    starting_us: int
    spells: int
    open: bool

    @property
    def waited_s(self) -> float:
        """How long it waited in all, in seconds."""
        return self.waited_us / 1_000_000


def read_waited(*, visible: Visibility, workload_id: int, now: datetime) -> Waited | None:
    """Return where the waiting went, or None where there is no such workload for the reader. Five queries."""
    rows = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
    )
    kind = rows.values_list("kind", flat=True).first()
    if kind is None:
        return None
    life, now_us = lives_of(rows).get(workload_id, []), to_us(now)
    intervals = models.AllocationInterval.objects.filter(workload_id=workload_id)
    held = list(intervals.order_by("from_us").values_list("from_us", "to_us", "running_us"))
    waits = gaps(life, [(from_us, to_us_) for from_us, to_us_, _running in held])
    closed = [(from_us, now_us if to_us_ is None else to_us_) for from_us, to_us_ in waits]
    notes = _notes(workload_id, is_service=kind == Kind.INFERENCE)
    taken = divide(closed, notes)
    slept = sum(set(divide([wait], notes)) == {ASLEEP} for wait in closed)
    taken.pop(ASLEEP, None)
    is_asleep = bool(notes) and notes[-1][1] == ASLEEP
    return _waited(
        taken,
        starting_us=starting(held, now_us=now_us),
        spells=len(waits) - slept,
        is_open=not is_asleep and any(to_us_ is None for _from, to_us_ in waits),
    )


def divide(waits: Iterable[Span], notes: Sequence[Note]) -> dict[str, int]:
    """Return the microseconds of ``waits`` by the reason that held; each wait begins without one.

    Only a service that was sent to zero before its last replica ended is asleep from the first.
    ``notes`` in order of time.
    """
    taken: dict[str, int] = defaultdict(int)
    for from_us, until_us in waits:
        first, last = (bisect_left(notes, (edge_us, "")) for edge_us in (from_us, until_us))
        at_us, code = from_us, NEXT_CYCLE
        if first and notes[first - 1][1] == ASLEEP:
            code = ASLEEP
        elif first == last and until_us - from_us > _LOOKS_WITHIN_US:
            code = UNRECORDED
        for noted_us, noted in notes[first:last]:
            taken[code] += noted_us - at_us
            at_us, code = noted_us, noted or NEXT_CYCLE
        taken[code] += until_us - at_us
    return {code: us for code, us in taken.items() if us > 0}


def starting(held: Iterable[tuple[int, int | None, int | None]], *, now_us: int) -> int:
    """Return how long something was held of which nothing had run yet, in microseconds.

    ``held``: (from, to, running since) of each replica, by ``from``.
    """
    total, began_us, until_us = 0, 0, 0
    ran_us: int | None = None
    for from_us, to_us_, running_us in held:
        if from_us >= until_us:
            total += (until_us if ran_us is None else ran_us) - began_us
            began_us, until_us, ran_us = from_us, from_us, None
        until_us = max(until_us, now_us if to_us_ is None else to_us_)
        if running_us is not None:
            ran_us = running_us if ran_us is None else min(ran_us, running_us)
    return total + (until_us if ran_us is None else ran_us) - began_us


def _notes(workload_id: int, *, is_service: bool) -> list[Note]:
    codes = ("waits", *_SERVED_CODES, *(("scaled",) if is_service else ()))
    rows = models.WorkloadEvent.objects.filter(workload_id=workload_id, code__in=codes)
    found: list[Note] = []
    for at, code, reason, wanted in rows.order_by("at", "id").values_list(
        "at", "code", "params__code", "params__to"
    ):
        if code == "waits":
            found.append((to_us(at), str(reason or "")))
        elif code == "scaled":
            found.append((to_us(at), ASLEEP if wanted == 0 else ""))
        else:
            found.append((to_us(at), VACATING))
    return found


def _waited(taken: dict[str, int], *, starting_us: int, spells: int, is_open: bool) -> Waited:
    ordered = sorted(taken.items(), key=lambda item: (-item[1], item[0]))
    if starting_us > 0:
        ordered.append((STARTING, starting_us))
    whole_us = sum(us for _code, us in ordered)
    parts: list[WaitPart] = []
    done_us = 0
    for code, us in ordered:
        begin, end = 1000 * done_us // whole_us, 1000 * (done_us + us) // whole_us
        done_us += us
        parts.append(
            WaitPart(
                code=code,
                name=_(_NAMES[code]) if code in _NAMES else name_of(Reason(code)),
                tone=_TONES.get(code, "place"),
                us=us,
                from_permille=begin,
                permille=end - begin,
            )
        )
    return Waited(
        parts=tuple(parts),
        waited_us=sum(taken.values()),
        starting_us=starting_us,
        spells=spells,
        open=is_open,
    )
