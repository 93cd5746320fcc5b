"""Utilization by hour of the week: what was computing of what was held, in the report's zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reports import numbers
from reports.consumption import ReportRequest
from reports.periods import Bucket, divide
from scheduler.core.instants import from_us, to_us
from scheduler.core.usage import GPU_HOUR
from scheduler.queries import usage
from scheduler.queries.visibility import Visibility

HOURS_A_WEEK = 168
#: Longer periods have no heat map: their weeks say little about each other.
LONGEST_US = 100 * 24 * 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One hour of the week. ``level``: 0 to 3 by utilization, empty where nothing was held."""

    hour: int
    held: str
    percent: str
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One day of the week; 0 is Monday."""

    weekday: int
    cells: tuple[HeatCell, ...]


def make_heatmap(
    *, visible: Visibility, request: ReportRequest, now: datetime
) -> tuple[HeatRow, ...]:
    """Return seven rows of 24 cells, or nothing for a period of more than 100 days."""
    span = request.span
    if span.to_us - span.from_us > LONGEST_US:
        return ()
    slots = divide(span=span, bucket=Bucket.HOUR)
    cuts = [slot.from_us for slot in slots] + [span.to_us]
    rows = usage.read_work_total(
        visible=visible, cuts=cuts, now_us=to_us(now), wanted=request.wanted
    )
    held, idle, length_us = ([0] * HOURS_A_WEEK for _ in range(3))
    for slot, row in zip(slots, rows, strict=True):
        local = from_us(slot.from_us).astimezone(span.tz)
        at = local.weekday() * 24 + local.hour
        held[at] += row.allocated
        idle[at] += row.idle
        length_us[at] += slot.to_us - slot.from_us
    return tuple(
        HeatRow(
            weekday=day,
            cells=tuple(
                _cell(at % 24, held[at], idle[at], length_us[at])
                for at in range(day * 24, day * 24 + 24)
            ),
        )
        for day in range(7)
    )


def _cell(hour: int, held: int, idle: int, length_us: int) -> HeatCell:
    mean = numbers.decimal_text(
        amount=held * 3_600_000_000, unit=GPU_HOUR * max(1, length_us), places=2
    )
    if not held:
        return HeatCell(hour=hour, held=mean if length_us else "", percent="", level="")
    busy = 100 * (held - idle) // held
    return HeatCell(
        hour=hour,
        held=mean,
        percent=numbers.percent(part=held - idle, whole=held, places=0),
        level=str(min(3, busy // 25)),
    )
