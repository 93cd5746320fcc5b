"""From a figure to the intervals it sums: a page of them, or all of them as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from reports.consumption import ReportRequest, describe_filters
from reports.csv_export import intervals_csv
from scheduler.core.instants import to_us
from scheduler.queries import usage_intervals, usage_names
from scheduler.queries.usage_facts import Period
from scheduler.queries.usage_intervals import Interval
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """An interval and its part of the figure."""

    interval: Interval
    inside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPage:
    """Some of the intervals, and how many there are."""

    rows: tuple[IntervalRow, ...]
    count: int
    filters: str


def list_page(
    *, visible: Visibility, request: ReportRequest, now: datetime, after: int = 0, limit: int = 100
) -> IntervalPage:
    """Return the intervals with ids above ``after`` that a figure sums."""
    period = _period(request, now)
    rows, count = usage_intervals.list_intervals(
        visible=visible, wanted=request.wanted, period=period, after=after, limit=limit
    )
    names = usage_names.read_names(visible=visible)
    return IntervalPage(
        rows=tuple(IntervalRow(interval=row, inside=row.inside(period)) for row in rows),
        count=count,
        filters=describe_filters(wanted=request.wanted, names=names),
    )


def export(*, visible: Visibility, request: ReportRequest, now: datetime) -> Iterator[bytes]:
    """Yield all intervals that a report sums as CSV, in constant memory."""
    names = usage_names.read_names(visible=visible)
    return intervals_csv(
        request=request,
        filters=describe_filters(wanted=request.wanted, names=names),
        intervals=usage_intervals.stream_intervals(
            visible=visible, wanted=request.wanted, period=_period(request, now)
        ),
        now_us=to_us(now),
    )


def _period(request: ReportRequest, now: datetime) -> Period:
    return Period(from_us=request.span.from_us, to_us=request.span.to_us, now_us=to_us(now))
