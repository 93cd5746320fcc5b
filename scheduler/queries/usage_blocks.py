"""Rolled-up hours: which parts of a period they cover, and their sums."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from scheduler import models
from scheduler.core.instants import from_us, to_us
from scheduler.core.usage import DAY_US, HOUR_US, NAMES
from scheduler.core.usage_cells import add_up
from scheduler.queries.usage_facts import CHUNK, UsageFilter, hours_of
from scheduler.queries.visibility import Visibility

HOURS_A_DAY = 24
DAYS_A_MONTH = 31
#: Parts of a period that are further apart are read apart.
FAR_US = 2 * DAY_US


class BlockKey(NamedTuple):
    """One row of the ledger; ``project_id`` None: what the department held beyond its guarantee."""

    project_id: int | None
    department_id: int
    pool_id: int


class Stretch(NamedTuple):
    """Whole rolled-up hours that lie in one slot of a report."""

    slot: int
    from_us: int
    to_us: int


@dataclass(slots=True, kw_only=True)
class Leftover:
    """Parts of a period that are read from the intervals, near to each other."""

    #: Boundaries in order, and the slot of each part between two; None: a gap that isn't asked for.
    cuts: list[int]
    slots: list[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """A period divided into what blocks cover and what is read from the intervals."""

    stretches: tuple[Stretch, ...]
    leftovers: tuple[Leftover, ...]


def rolled_until() -> int | None:
    """Return up to when blocks may be used, or None. Two queries."""
    state = models.UsageRollup.objects.filter(pk=1).first()
    if state is None or state.until_us is None or state.prices != price_mark():
        return None
    return state.until_us


def price_mark() -> str:
    """Return what changes when any price does: blocks made with others are not used."""
    digest = hashlib.sha256()
    for price in models.GpuPrice.objects.order_by("gpu_model", "from_at").values_list():
        digest.update(repr(price[1:]).encode())
    return digest.hexdigest()


def divide(*, cuts: Sequence[int], until_us: int | None) -> Division:
    """Return which whole hours of each slot are rolled up, and what is left."""
    stretches: list[Stretch] = []
    left: list[Stretch] = []
    for slot, (begin, end) in enumerate(pairwise(cuts)):
        first = -(-begin // HOUR_US) * HOUR_US
        last = min(end, until_us or begin) // HOUR_US * HOUR_US
        if first >= last:
            left.append(Stretch(slot, begin, end))
            continue
        stretches.append(Stretch(slot, first, last))
        parts = ((begin, first), (last, end))
        left += [Stretch(slot, *part) for part in parts if part[0] < part[1]]
    return Division(stretches=tuple(stretches), leftovers=tuple(_gather(left)))


def _gather(parts: Sequence[Stretch]) -> Iterator[Leftover]:
    """Yield the parts in groups that are read together: across a wide gap costs more than a query."""
    group: Leftover | None = None
    for part in parts:
        if group is not None and part.from_us - group.cuts[-1] > FAR_US:
            yield group
            group = None
        if group is None:
            group = Leftover(cuts=[part.from_us], slots=[])
        elif part.from_us > group.cuts[-1]:
            group.slots.append(None)
            group.cuts.append(part.from_us)
        group.slots.append(part.slot)
        group.cuts.append(part.to_us)
    if group is not None:
        yield group


def read_blocks(
    *,
    visible: Visibility,
    wanted: UsageFilter,
    stretches: Sequence[Stretch],
    slots: int,
) -> dict[BlockKey, list[list[int]]]:
    """Return sums in the order of ``NAMES`` for each row and slot. At most two queries."""
    days: dict[int, list[Stretch]] = defaultdict(list)
    months: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        _plan(stretch, days, months)
    found: dict[BlockKey, list[list[int]]] = {}
    for level, plan, count in (
        (models.UsageBlock.Level.DAY, days, HOURS_A_DAY),
        (models.UsageBlock.Level.MONTH, months, DAYS_A_MONTH),
    ):
        if not plan:
            continue
        rows = models.UsageBlock.objects.filter(
            hours_of(visible), wanted.condition(), level=level, start_us__in=sorted(plan)
        ).values_list("project_id", "department_id", "pool_id", "start_us", "cells")
        for project_id, department_id, pool_id, start_us, cells in rows.iterator(chunk_size=CHUNK):
            key = BlockKey(project_id, department_id, pool_id)
            if key not in found:
                found[key] = [[0] * len(NAMES) for _ in range(slots)]
            parts = plan[start_us]
            sums = add_up(
                cells=bytes(cells), count=count, ranges=[(part[1], part[2]) for part in parts]
            )
            for part, values in zip(parts, sums, strict=True):
                into = found[key][part.slot]
                for at, value in enumerate(values):
                    into[at] += value
    return found


def _plan(
    stretch: Stretch, days: dict[int, list[Stretch]], months: dict[int, list[Stretch]]
) -> None:
    """Note which cells of which blocks make up a stretch: whole days by month, the rest by hour."""
    slot, begin, end = stretch
    first_day, last_day = -(-begin // DAY_US) * DAY_US, end // DAY_US * DAY_US
    if first_day >= last_day:
        _plan_hours(slot, begin, end, days)
        return
    _plan_hours(slot, begin, first_day, days)
    _plan_hours(slot, last_day, end, days)
    at = first_day
    while at < last_day:
        start = month_start(at)
        until = min(last_day, next_month(start))
        months[start].append(Stretch(slot, (at - start) // DAY_US, (until - start) // DAY_US))
        at = until


def _plan_hours(slot: int, begin: int, end: int, days: dict[int, list[Stretch]]) -> None:
    while begin < end:
        day = begin // DAY_US * DAY_US
        until = min(end, day + DAY_US)
        days[day].append(Stretch(slot, (begin - day) // HOUR_US, (until - day) // HOUR_US))
        begin = until


def month_start(at_us: int) -> int:
    """Return the begin of the UTC month."""
    at = from_us(at_us)
    return to_us(datetime(at.year, at.month, 1, tzinfo=at.tzinfo))


def next_month(start_us: int) -> int:
    """Return the begin of the month after the one that begins at ``start_us``."""
    return month_start(start_us + 32 * DAY_US)
