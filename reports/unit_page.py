"""What the page of one department or project tells: averages, use over a week, how its guarantee was kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from reports import in_words, promise, shown
from reports.asked import Asked, Preset
from reports.averages import Average, average
from reports.consumption import Report, ReportRequest, Segment, make_report
from reports.periods import Bucket, Span, make_span
from scheduler.core.usage import DAY_US
from scheduler.core.vocabulary import Level
from scheduler.queries.units import UnitRow
from scheduler.queries.usage_facts import UsageFilter
from scheduler.queries.visibility import Visibility

#: Days of the averages.
WINDOWS = (1, 7, 30)
CHART_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPage:
    """The parts of the page."""

    averages: tuple[Average, ...]
    sentences: tuple[in_words.Sentence, ...]
    chart: dict[str, object]
    #: Projects of a department over the week, the largest first.
    rows: tuple[shown.ShownRow, ...]
    heads: tuple[shown.Head, ...]
    promises: tuple[tuple[promise.Line, dict[str, str]], ...]
    #: The report of the same week.
    asked: Asked


def make_unit_page(*, visible: Visibility, unit: UnitRow, zone: str, now: datetime) -> UnitPage:
    """Return the page of a unit."""
    wanted = (
        UsageFilter(project_ids=frozenset({unit.id}))
        if unit.level is Level.PROJECT
        else UsageFilter(department_ids=frozenset({unit.id}))
    )
    week = ReportRequest(
        span=_span(CHART_DAYS, zone, now),
        segment=Segment.PROJECT,
        bucket=Bucket.HOUR,
        wanted=wanted,
    )
    by_hour = make_report(visible=visible, request=week, now=now)
    own = Segment.PROJECT if unit.level is Level.PROJECT else Segment.DEPARTMENT
    whole = make_report(
        visible=visible,
        request=ReportRequest(span=week.span, segment=own, wanted=wanted),
        now=now,
    )
    return UnitPage(
        averages=tuple(_average(days, visible, wanted, zone, now) for days in WINDOWS),
        sentences=in_words.tell(visible=visible, report=whole, now=now),
        chart=shown.chart(report=by_hour),
        rows=shown.unit_rows(report=by_hour, previous=None),
        heads=shown.heads(by_hour),
        promises=tuple(
            (line, promise.shown(line.promise))
            for line in promise.make_lines(visible=visible, request=week, now=now)
        ),
        asked=Asked(request=week, preset=Preset.CUSTOM, compare=False),
    )


def _span(days: int, zone: str, now: datetime) -> Span:
    return make_span(from_at=now - timedelta(days=days), to_at=now, zone=zone, now=now)


def _average(
    days: int, visible: Visibility, wanted: UsageFilter, zone: str, now: datetime
) -> Average:
    span = _span(days, zone, now)
    request = ReportRequest(span=span, segment=Segment.PROJECT, wanted=wanted)
    report: Report = make_report(visible=visible, request=request, now=now)
    return average(figures=report.total.figures, length_us=days * DAY_US, label=_label(days))


def _label(days: int) -> str:
    return {1: _("24 hours"), 7: _("7 days"), 30: _("30 days")}[days]
