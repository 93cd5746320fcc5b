"""All that the consumption page shows, made in one call; also what its live updates send."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reports import in_words, shown
from reports.asked import Asked
from reports.consumption import Report, make_previous, make_report
from reports.heatmap import HeatRow, make_heatmap
from scheduler.queries import usage_names
from scheduler.queries.usage_names import Names
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The parts of the page."""

    asked: Asked
    report: Report
    tiles: tuple[shown.Tile, ...]
    heads: tuple[shown.Head, ...]
    units: tuple[shown.ShownRow, ...]
    units_left_out: int
    total: dict[str, str]
    total_exact: dict[str, str]
    total_change: str
    steps: tuple[shown.ShownRow, ...]
    steps_left_out: int
    heat: tuple[HeatRow, ...]
    sentences: tuple[in_words.Sentence, ...]
    chart: dict[str, object]
    names: Names


def make_page(*, visible: Visibility, asked: Asked, now: datetime) -> Page:
    """Return the page of a request.

    Raises:
        ReportRefused: too many rows.
    """
    report = make_report(visible=visible, request=asked.request, now=now)
    previous = _previous(visible, asked, now)
    divided = len(report.slots) > 1
    before = previous.total.figures if previous else None
    return Page(
        asked=asked,
        report=report,
        tiles=shown.tiles(report=report, previous=previous),
        heads=shown.heads(report),
        units=shown.unit_rows(report=report, previous=previous),
        units_left_out=max(0, len(report.units) - shown.MAX_UNITS),
        total=shown.cells(report.total),
        total_exact=shown.exact(report.total),
        total_change=shown.change(report.total.figures, before) if previous else "",
        steps=shown.step_rows(report=report) if divided else (),
        steps_left_out=max(0, len(report.rows) - shown.MAX_SHOWN) if divided else 0,
        heat=make_heatmap(visible=visible, request=asked.request, now=now),
        sentences=in_words.tell(visible=visible, report=report, now=now),
        chart=shown.chart(report=report),
        names=usage_names.read_names(visible=visible),
    )


def live_state(*, visible: Visibility, asked: Asked, now: datetime) -> dict[str, object]:
    """Return what changes on the page while its period runs: texts by their places, and charts.

    Raises:
        ReportRefused: too many rows.
    """
    report = make_report(visible=visible, request=asked.request, now=now)
    previous = _previous(visible, asked, now)
    tiles = shown.tiles(report=report, previous=previous)
    rows = shown.unit_rows(report=report, previous=previous)
    return {
        "to": f"{report.request.span.to_at:%Y-%m-%d %H:%M:%S}",
        "tiles": {tile.name: [tile.text, tile.about, tile.change] for tile in tiles},
        "rows": {row.key: row.cells for row in rows},
        "total": shown.cells(report.total),
        "hints": {**{row.key: row.exact for row in rows}, "total": shown.exact(report.total)},
        "sentences": [
            [one.name, one.color, one.text]
            for one in in_words.tell(visible=visible, report=report, now=now)
        ],
        "chart": shown.chart(report=report),
        "exact": {
            "deserved": report.total.figures.deserved,
            "over_quota": report.total.figures.over_quota,
            "idle": report.total.figures.idle,
            "allocated": report.total.figures.allocated,
        },
    }


def _previous(visible: Visibility, asked: Asked, now: datetime) -> Report | None:
    if not asked.compare:
        return None
    return make_previous(visible=visible, request=asked.request, now=now)
