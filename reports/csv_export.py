"""CSV that spreadsheets open right: a byte order mark, guarded text, plain numbers, streamed."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from urllib.parse import quote

from reports.columns import COLUMNS, iso, local_iso
from reports.consumption import Report, ReportRequest
from reports.numbers import decimal_text, gpu_hours
from scheduler.queries.csv_text import guard
from scheduler.queries.usage_behind import Fact
from scheduler.queries.usage_facts import Period
from scheduler.queries.usage_intervals import Interval

BOM = "\ufeff"
LINES_A_PART = 500


class _Line:
    """A file of one line: what csv.writer writes is read at once."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text = text


def stream(*, header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[bytes]:
    """Yield a CSV document in parts of some hundred lines. Also without lines it has its header."""
    target = _Line()
    writer = csv.writer(target)
    writer.writerow(header)
    part = [BOM + target.text]
    for line in lines:
        writer.writerow(line)
        part.append(target.text)
        if len(part) == LINES_A_PART:
            yield "".join(part).encode()
            part = []
    if part:
        yield "".join(part).encode()


def report_csv(*, report: Report) -> Iterator[bytes]:
    """Yield a report's rows as CSV, then nothing: the total is the sum of the rows."""
    lines = (
        [
            guard(column.value(report, row)) if column.text else column.value(report, row)
            for column in COLUMNS
        ]
        for row in report.rows
    )
    return stream(header=[column.name for column in COLUMNS], lines=lines)


#: Name of an interval's column, and whether it holds text.
INTERVAL_COLUMNS = (
    ("interval_id", False),
    ("workload_id", False),
    ("workload", True),
    ("attempt", False),
    ("user", True),
    ("kind", True),
    ("project_id", False),
    ("project", True),
    ("department_id", False),
    ("department", True),
    ("node_pool", True),
    ("node", True),
    ("devices", True),
    ("gpu", False),
    ("cpu_cores", False),
    ("memory_gib", False),
    ("preemptible", True),
    ("held_from", True),
    ("held_to", True),
    ("gpu_hours_in_period", False),
    ("waited_seconds", False),
    ("period_start", True),
    ("period_end", True),
    ("timezone", True),
    ("filters", True),
)


def intervals_csv(
    *, request: ReportRequest, filters: str, intervals: Iterable[Interval], now_us: int
) -> Iterator[bytes]:
    """Yield the intervals that a report sums as CSV. Constant memory however many there are."""
    span = request.span
    period = Period(from_us=span.from_us, to_us=span.to_us, now_us=now_us)
    trailing = (iso(span.from_at), iso(span.to_at), span.zone, filters)
    lines = (
        _guarded((*_interval_values(row, period, span.tz), *trailing), INTERVAL_COLUMNS)
        for row in intervals
    )
    return stream(header=[name for name, _text in INTERVAL_COLUMNS], lines=lines)


def _interval_values(row: Interval, period: Period, tz: tzinfo) -> tuple[object, ...]:
    return (
        row.id,
        row.workload_id,
        row.workload,
        row.attempt,
        row.user,
        row.kind,
        row.project_id,
        row.project,
        row.department_id,
        row.department,
        row.pool,
        row.node,
        " ".join(str(index) for index in row.devices),
        decimal_text(amount=row.mgpu, unit=1000, places=3),
        decimal_text(amount=row.cpu_milli, unit=1000, places=3),
        decimal_text(amount=row.memory_mib, unit=1024, places=3),
        "yes" if row.preemptible else "no",
        local_iso(row.from_us, tz),
        "" if row.to_us is None else local_iso(row.to_us, tz),
        gpu_hours(row.inside(period)),
        ""
        if row.waited_us is None
        else decimal_text(amount=row.waited_us, unit=1_000_000, places=3),
    )


#: Of what samples said, and of what was guaranteed.
FACT_COLUMNS = (
    ("id", False),
    ("what", True),
    ("project_id", False),
    ("project", True),
    ("department_id", False),
    ("department", True),
    ("node_pool", True),
    ("workload_id", False),
    ("workload", True),
    ("gpu", False),
    ("from", True),
    ("to", True),
    ("gpu_hours_in_period", False),
    ("period_start", True),
    ("period_end", True),
    ("timezone", True),
    ("filters", True),
)


def facts_csv(
    *, request: ReportRequest, filters: str, facts: Iterable[Fact], now_us: int
) -> Iterator[bytes]:
    """Yield what stands behind idle hours or guarantees as CSV, in constant memory."""
    span = request.span
    period = Period(from_us=span.from_us, to_us=span.to_us, now_us=now_us)
    trailing = (iso(span.from_at), iso(span.to_at), span.zone, filters)
    lines = (
        _guarded((*_fact_values(fact, period, span.tz), *trailing), FACT_COLUMNS) for fact in facts
    )
    return stream(header=[name for name, _text in FACT_COLUMNS], lines=lines)


def _fact_values(fact: Fact, period: Period, tz: tzinfo) -> tuple[object, ...]:
    return (
        fact.id,
        fact.what,
        fact.project_id,
        fact.project,
        fact.department_id,
        fact.department,
        fact.pool,
        fact.workload_id or "",
        fact.workload,
        decimal_text(amount=fact.mgpu, unit=1000, places=3),
        local_iso(fact.from_us, tz),
        "" if fact.to_us is None else local_iso(fact.to_us, tz),
        gpu_hours(fact.inside(period)),
    )


def _guarded(values: Iterable[object], columns: Iterable[tuple[str, bool]]) -> list[str]:
    return [
        guard(str(value)) if text else str(value)
        for value, (_name, text) in zip(values, columns, strict=True)
    ]


def file_name(*, request: ReportRequest, what: str = "consumption", ending: str = "csv") -> str:
    """Return ``tidegate-consumption-<segment>-<from>-<to>.csv``, the dates local."""
    begin, end = request.span.from_at, request.span.to_at
    return f"tidegate-{what}-{request.segment}-{_dated(begin)}-{_dated(end)}.{ending}"


def disposition(*, name: str) -> str:
    """Return the Content-Disposition of a download: UTF-8 with an ASCII name to fall back on."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"


def _dated(at: datetime) -> str:
    return f"{at:%Y%m%d}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%Y%m%dT%H%M}"
