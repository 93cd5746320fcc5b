"""From a figure to the intervals it sums: a page of them, or all of them as CSV.

Allocation sums what was held, idle hours what samples said of it, the guarantee what was in force.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice

from reports.consumption import ReportRequest, describe_filters
from reports.csv_export import facts_csv, intervals_csv
from scheduler.core.instants import to_us
from scheduler.queries import usage_behind, usage_intervals, usage_names
from scheduler.queries.usage_behind import Fact
from scheduler.queries.usage_facts import Period
from scheduler.queries.usage_intervals import Interval
from scheduler.queries.visibility import Visibility


class Behind(StrEnum):
    """What stands behind a figure."""

    HELD = "intervals"
    ACTIVITY = "activity"
    GUARANTEE = "guarantee"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """An interval and its part of the figure."""

    interval: Interval | Fact
    inside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPage:
    """Some of the intervals, and how many there are."""

    rows: tuple[IntervalRow, ...]
    count: int
    filters: str


def list_page(
    *,
    visible: Visibility,
    request: ReportRequest,
    now: datetime,
    behind: Behind = Behind.HELD,
    after: int = 0,
    limit: int = 100,
) -> IntervalPage:
    """Return the intervals with ids above ``after`` that a figure sums."""
    period = _period(request, now)
    wanted = request.wanted
    rows: list[Interval] | list[Fact]
    if behind is Behind.HELD:
        rows, count = usage_intervals.list_intervals(
            visible=visible, wanted=wanted, period=period, after=after, limit=limit
        )
    else:
        facts = usage_behind.stream_facts(
            behind=behind, visible=visible, wanted=wanted, period=period, after=after
        )
        rows = list(islice(facts, limit))
        count = usage_behind.count_facts(
            behind=behind, visible=visible, wanted=wanted, period=period
        )
    names = usage_names.read_names(visible=visible)
    return IntervalPage(
        rows=tuple(IntervalRow(interval=row, inside=row.inside(period)) for row in rows),
        count=count,
        filters=describe_filters(wanted=wanted, names=names),
    )


def export(
    *,
    visible: Visibility,
    request: ReportRequest,
    now: datetime,
    behind: Behind = Behind.HELD,
) -> Iterator[bytes]:
    """Yield all intervals that a report sums as CSV, in constant memory."""
    names = usage_names.read_names(visible=visible)
    filters = describe_filters(wanted=request.wanted, names=names)
    period = _period(request, now)
    if behind is not Behind.HELD:
        facts = usage_behind.stream_facts(
            behind=behind, visible=visible, wanted=request.wanted, period=period
        )
        return facts_csv(request=request, filters=filters, facts=facts, now_us=to_us(now))
    return intervals_csv(
        request=request,
        filters=filters,
        intervals=usage_intervals.stream_intervals(
            visible=visible, wanted=request.wanted, period=period
        ),
        now_us=to_us(now),
    )


def _period(request: ReportRequest, now: datetime) -> Period:
    return Period(from_us=request.span.from_us, to_us=request.span.to_us, now_us=to_us(now))
