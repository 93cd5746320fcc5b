"""Roll the ledger's closed hours up into blocks, exact, and again from the intervals at any time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from django.db import transaction

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import DAY_US, HOUR_US, NOTHING, Figures, sum_figures
from scheduler.core.usage_cells import decode, encode
from scheduler.queries import usage, usage_blocks
from scheduler.queries.usage_blocks import DAYS_A_MONTH, HOURS_A_DAY, BlockKey
from scheduler.queries.usage_facts import EVERYTHING
from scheduler.queries.visibility import SYSTEM

#: An hour is rolled up this long after its end; what comes later still takes it back.
LATE_US = 10 * 60 * 1_000_000
BATCH = 500

Level = models.UsageBlock.Level


def roll_up(*, now: datetime, most_days: int = 1) -> int:
    """Roll up the next closed hours, at most so many days or to the end of a UTC month.

    Returns the hours that were rolled up; 0: nothing is left to do. Repeating it is safe, and so is
    dying inside it.
    """
    with transaction.atomic():
        models.UsageRollup.objects.get_or_create(pk=1)
        state = models.UsageRollup.objects.select_for_update().get(pk=1)
        mark = usage_blocks.price_mark()
        if state.prices != mark:
            models.UsageBlock.objects.all().delete()
            state.prices, state.until_us = mark, None
        begin = _first_hour() if state.until_us is None else state.until_us
        end = _last_hour(begin, to_us(now), most_days)
        if begin is None or end <= begin:
            state.save()
            return 0
        cuts = list(range(begin, end + 1, HOUR_US))
        _write_hours(cuts, _read(cuts, to_us(now)))
        for day in range(-(-begin // DAY_US) * DAY_US, end + 1, DAY_US):
            if day > begin:
                _write_day(day - DAY_US)
        state.until_us = end
        state.save()
        return (end - begin) // HOUR_US


@transaction.atomic
def forget_after(*, at_us: int) -> None:
    """Take back hours that end after ``at_us``: something was written into them late."""
    state = models.UsageRollup.objects.select_for_update().filter(pk=1).first()
    if state is not None and state.until_us is not None and state.until_us > at_us:
        state.until_us = at_us // HOUR_US * HOUR_US
        state.save(update_fields=["until_us"])


@transaction.atomic
def prices_changed(*, before: str, from_us: int) -> None:
    """Take back the hours from ``from_us`` on: what is before it was not repriced.

    ``before``: the mark of the prices before the change. Blocks made with others stay unused.
    """
    forget_after(at_us=from_us)
    models.UsageRollup.objects.filter(pk=1, prices=before).update(prices=usage_blocks.price_mark())


def catch_up(*, now: datetime, within_s: float) -> int:
    """Roll up day after day until nothing is left or the time is over; return the hours."""
    until, hours = time.monotonic() + within_s, 0
    while done := roll_up(now=now):
        hours += done
        if time.monotonic() > until:
            break
    return hours


@transaction.atomic
def forget_all() -> None:
    """Drop every block; they are made again from the intervals."""
    models.UsageBlock.objects.all().delete()
    models.UsageRollup.objects.filter(pk=1).update(until_us=None, prices="")


def _first_hour() -> int | None:
    tables = (models.AllocationInterval, models.QuotaHistory)
    firsts = [
        table.objects.order_by("from_us").values_list("from_us", flat=True).first()
        for table in tables
    ]
    known = [found for found in firsts if found is not None]
    return min(known) // HOUR_US * HOUR_US if known else None


def _last_hour(begin: int | None, now_us: int, most_days: int) -> int:
    closed = (now_us - LATE_US) // HOUR_US * HOUR_US
    if begin is None:
        return closed
    month_end = usage_blocks.next_month(usage_blocks.month_start(begin))
    return min(closed, month_end, begin // DAY_US * DAY_US + most_days * DAY_US)


def _read(cuts: Sequence[int], now_us: int) -> dict[BlockKey, list[Figures]]:
    found = usage.read_raw_usage(visible=SYSTEM, cuts=cuts, now_us=now_us)
    rows = {BlockKey(*key): figures for key, figures in found.queues.items()}
    for (department_id, pool_id), values in found.beyond.items():
        rows[BlockKey(None, department_id, pool_id)] = [
            Figures(over_quota=value) for value in values
        ]
    return rows


def _write_hours(cuts: Sequence[int], found: dict[BlockKey, list[Figures]]) -> None:
    """Put hours into the blocks of their days; hours before them stay as they are."""
    begin = cuts[0]
    days = sorted({cut // DAY_US * DAY_US for cut in cuts[:-1]})
    before = _blocks(Level.DAY, [day for day in days if day < begin])
    changed: list[models.UsageBlock] = []
    for day in days:
        for key in sorted({*found, *(k for d, k in before if d == day)}, key=repr):
            block = before.get((day, key))
            rows = _hours_before(block, (begin - day) // HOUR_US)
            rows += [
                found[key][at] if key in found else NOTHING
                for at, cut in enumerate(cuts[:-1])
                if day <= cut < day + DAY_US
            ]
            rows += [NOTHING] * (HOURS_A_DAY - len(rows))
            if block is not None or any(row != NOTHING for row in rows):
                changed.append(_block(block, Level.DAY, day, key, rows))
    _drop(Level.DAY, [day for day in days if day >= begin])
    _save(changed)


def _hours_before(block: models.UsageBlock | None, count: int) -> list[Figures]:
    if count <= 0:
        return []
    if block is None:
        return [NOTHING] * count
    return decode(cells=bytes(block.cells), count=HOURS_A_DAY)[:count]


def _write_day(day: int) -> None:
    """Put the sum of a whole day into the blocks of its month."""
    month = usage_blocks.month_start(day)
    at = (day - month) // DAY_US
    hours = _blocks(Level.DAY, [day])
    before = _blocks(Level.MONTH, [month])
    changed: list[models.UsageBlock] = []
    for key in sorted({key for _, key in (*hours, *before)}, key=repr):
        block, source = before.get((month, key)), hours.get((day, key))
        rows = [NOTHING] * DAYS_A_MONTH
        if block is not None:
            rows = decode(cells=bytes(block.cells), count=DAYS_A_MONTH)
        rows[at] = NOTHING
        if source is not None:
            rows[at] = sum_figures(rows=decode(cells=bytes(source.cells), count=HOURS_A_DAY))
        changed.append(_block(block, Level.MONTH, month, key, rows))
    _save(changed)


def _blocks(level: str, starts: Sequence[int]) -> dict[tuple[int, BlockKey], models.UsageBlock]:
    rows = models.UsageBlock.objects.filter(level=level, start_us__in=starts)
    return {
        (row.start_us, BlockKey(row.project_id, row.department_id, row.pool_id)): row
        for row in rows.iterator(chunk_size=2000)
    }


def _block(
    block: models.UsageBlock | None, level: str, start_us: int, key: BlockKey, rows: list[Figures]
) -> models.UsageBlock:
    if block is None:
        block = models.UsageBlock(
            level=level,
            start_us=start_us,
            project_id=key.project_id,
            department_id=key.department_id,
            pool_id=key.pool_id,
        )
    block.cells = encode(rows=rows)
    return block


def _drop(level: str, starts: Sequence[int]) -> None:
    models.UsageBlock.objects.filter(level=level, start_us__in=starts).delete()


def _save(blocks: list[models.UsageBlock]) -> None:
    new = [block for block in blocks if block.pk is None]
    old = [block for block in blocks if block.pk is not None]
    models.UsageBlock.objects.bulk_create(new, batch_size=BATCH)
    models.UsageBlock.objects.bulk_update(old, ["cells"], batch_size=BATCH)


def differences(*, now_us: int) -> Iterator[str]:
    """Yield where blocks differ from what the intervals say, month by month."""
    until_us = usage_blocks.rolled_until()
    begin = _first_hour()
    if until_us is None or begin is None:
        return
    while begin < until_us:
        end = min(until_us, usage_blocks.next_month(usage_blocks.month_start(begin)))
        cuts = list(range(begin, end + 1, HOUR_US))
        expected = _read(cuts, now_us)
        for level_cuts in (cuts, [begin, end]):
            yield from _differing(level_cuts, expected, cuts)
        begin = end


def _differing(
    level_cuts: Sequence[int], expected: dict[BlockKey, list[Figures]], cuts: Sequence[int]
) -> Iterator[str]:
    """Compare by hour, and over whole days."""
    stretches = [
        usage_blocks.Stretch(slot, begin, end)
        for slot, (begin, end) in enumerate(pairwise(level_cuts))
    ]
    found = usage_blocks.read_blocks(
        visible=SYSTEM, wanted=EVERYTHING, stretches=stretches, slots=len(stretches)
    )
    whole = len(level_cuts) < len(cuts)
    for key in sorted({*expected, *found}, key=repr):
        rows = expected.get(key, [NOTHING] * (len(cuts) - 1))
        wanted = (
            [list(sum_figures(rows=rows).values())]
            if whole
            else [list(row.values()) for row in rows]
        )
        told = found.get(key, [[0] * len(NOTHING.values())] * len(wanted))
        for slot, (one, other) in enumerate(zip(wanted, told, strict=True)):
            if one != other:
                yield f"block of {key} from {level_cuts[slot]} says {other}, its intervals {one}"
