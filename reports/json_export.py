"""A report as JSON: hours as decimal text like the CSV's, and the exact integrals beside them."""

from __future__ import annotations

from reports.columns import COLUMNS, iso
from reports.consumption import Report, Row
from scheduler.core.usage import NAMES

#: Columns that are the same on every row and stand at the top instead.
_TOP = frozenset({"segment", "currency", "period_start", "period_end", "timezone", "filters"})


def report_json(*, report: Report) -> dict[str, object]:
    """Return a report as plain values. ``exact`` holds the integrals in the units of core/usage.py."""
    span = report.request.span
    return {
        "segment": report.request.segment.value,
        "bucket": report.request.bucket.value,
        "period_start": iso(span.from_at),
        "period_end": iso(span.to_at),
        "timezone": span.zone,
        "cut_at_now": span.cut,
        "filters": report.filters,
        "currency": report.cluster.currency,
        "made_at": iso(report.made_at.astimezone(span.tz)),
        "rows": [_row(report, row) for row in report.rows],
        "units": [_row(report, row) for row in report.units],
        "total": _row(report, report.total),
    }


def _row(report: Report, row: Row) -> dict[str, object]:
    values: dict[str, object] = {
        column.name: column.value(report, row) if column.text else column.value(report, row) or None
        for column in COLUMNS
        if column.name not in _TOP
    }
    values["exact"] = {
        **dict(zip(NAMES, row.figures.values(), strict=True)),
        "unknown": row.figures.unknown,
        "from_other_departments": row.beyond,
    }
    return values
