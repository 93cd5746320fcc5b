"""Integrals of the ledger as mean amounts over a length of time, also project by project."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from reports.asked import Asked, Preset
from reports.consumption import ReportRequest, Row, Segment, make_report
from reports.numbers import decimal_text, shown_percent
from reports.periods import make_span
from scheduler.core.instants import from_us
from scheduler.core.usage import Figures, sum_figures
from scheduler.queries.usage_facts import UsageFilter
from scheduler.queries.visibility import Visibility

#: Projects that are shown, those that held most; the total counts all.
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """GPUs on average, and the share of what was held that was not idle."""

    label: str
    held: str
    guarantee: str
    borrowed: str
    idle: str
    utilization: str
    #: Number of a project's hue; 0: it has none.
    color: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages:
    """Every project of a pool that held something, the largest first."""

    rows: tuple[Average, ...]
    left_out: int
    total: Average
    #: The report of the same time.
    asked: Asked


def average(*, figures: Figures, length_us: int, label: str, color: int = 0) -> Average:
    """Return integrals as mean amounts over a length of time, each rounded once."""

    def mean(amount: int) -> str:
        return decimal_text(amount=amount, unit=1000 * length_us, places=2)

    return Average(
        label=label,
        held=mean(figures.allocated),
        guarantee=mean(figures.deserved),
        borrowed=mean(figures.over_quota),
        idle=mean(figures.idle),
        utilization=shown_percent(part=figures.allocated - figures.idle, whole=figures.allocated),
        color=color,
    )


def averages_by_project(
    *, visible: Visibility, pool_id: int, begin_us: int, zone: str, now: datetime
) -> Averages | None:
    """Return what each project held, and left idle, on average from ``begin_us`` until now.

    None where no time has passed since.
    """
    begin = from_us(begin_us)
    if begin >= now:
        return None
    request = ReportRequest(
        span=make_span(from_at=begin, to_at=now, zone=zone, now=now),
        segment=Segment.PROJECT,
        wanted=UsageFilter(pool_ids=frozenset({pool_id})),
    )
    report = make_report(visible=visible, request=request, now=now)
    length_us = request.span.to_us - request.span.from_us
    # A project that moved has a row for each of its departments; here it has one.
    moved: dict[str, list[Row]] = defaultdict(list)
    for row in report.units:
        moved[row.unit.id].append(row)
    held = [
        (sum_figures(rows=[row.figures for row in rows]), rows[0].unit)
        for rows in moved.values()
        if any(row.figures.allocated for row in rows)
    ]
    held.sort(key=lambda one: (-one[0].allocated, one[1].name))
    return Averages(
        rows=tuple(
            average(figures=figures, length_us=length_us, label=unit.name, color=unit.color)
            for figures, unit in held[:MAX_SHOWN]
        ),
        left_out=max(0, len(held) - MAX_SHOWN),
        total=average(figures=report.total.figures, length_us=length_us, label=_("Total")),
        asked=Asked(request=request, preset=Preset.CUSTOM, compare=False),
    )
