"""The columns of a report: one list for the page, CSV, JSON and the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from reports import numbers
from reports.consumption import Report, Row
from scheduler.core.instants import from_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. Text columns are guarded against formulas; numeric ones never."""

    name: str
    text: bool
    value: Callable[[Report, Row], str]


def local_iso(at_us: int, tz: tzinfo) -> str:
    """Return an instant as ISO time with its offset."""
    return iso(from_us(at_us).astimezone(tz))


def iso(at: datetime) -> str:
    """Return an aware time in ISO form; microseconds only where there are any."""
    return at.isoformat(timespec="microseconds" if at.microsecond else "seconds")


def _text(name: str, value: Callable[[Report, Row], str]) -> Column:
    return Column(name=name, text=True, value=value)


def _number(name: str, value: Callable[[Report, Row], str]) -> Column:
    return Column(name=name, text=False, value=value)


def _of_guarantee(name: str, figure: str) -> Column:
    """Return the column of a figure that rests on a guarantee; empty for parts of a queue's work."""
    return _number(
        name,
        lambda report, row: (
            numbers.gpu_hours(getattr(row.figures, figure)) if row.guaranteed else ""
        ),
    )


def _gpu(name: str, figure: str) -> Column:
    return _number(name, lambda report, row: numbers.gpu_hours(getattr(row.figures, figure)))


def _measured(row: Row) -> bool:
    """Test whether any use of CPU or memory was measured; without, it is unknown and not 0."""
    return bool(row.figures.cpu_used or row.figures.memory_used)


#: In this order for good; new ones go before the trailing ones.
COLUMNS = (
    _text("segment", lambda report, row: report.request.segment.value),
    _text("id", lambda report, row: row.unit.id),
    _text("name", lambda report, row: row.unit.name),
    _text("department", lambda report, row: row.unit.department),
    _text("bucket_start", lambda report, row: local_iso(row.slot.from_us, report.request.span.tz)),
    _text("bucket_end", lambda report, row: local_iso(row.slot.to_us, report.request.span.tz)),
    _gpu("gpu_allocation_hours", "allocated"),
    _of_guarantee("gpu_deserved_quota_hours", "deserved"),
    _of_guarantee("gpu_over_quota_hours", "over_quota"),
    _number(
        "gpu_from_other_departments_hours",
        lambda report, row: "" if row.beyond is None else numbers.gpu_hours(row.beyond),
    ),
    _of_guarantee("gpu_unused_guarantee_hours", "unused"),
    _gpu("gpu_idle_hours", "idle"),
    _gpu("gpu_unknown_hours", "unknown"),
    _number(
        "utilization_percent",
        lambda report, row: numbers.percent(
            part=row.figures.allocated - row.figures.idle, whole=row.figures.allocated
        ),
    ),
    _number("cpu_allocation_core_hours", lambda report, row: numbers.core_hours(row.figures.cpu)),
    _number(
        "cpu_usage_core_hours",
        lambda report, row: numbers.core_hours(row.figures.cpu_used) if _measured(row) else "",
    ),
    _number(
        "memory_allocation_gib_hours", lambda report, row: numbers.gib_hours(row.figures.memory)
    ),
    _number(
        "memory_usage_gib_hours",
        lambda report, row: numbers.gib_hours(row.figures.memory_used) if _measured(row) else "",
    ),
    _number("cost", lambda report, row: numbers.money(row.figures.cost)),
    _number("idle_cost", lambda report, row: numbers.money(row.figures.idle_cost)),
    _text("currency", lambda report, row: report.cluster.currency),
    _text("former_names", lambda report, row: "|".join(row.unit.former)),
    _text("period_start", lambda report, row: iso(report.request.span.from_at)),
    _text("period_end", lambda report, row: iso(report.request.span.to_at)),
    _text("timezone", lambda report, row: report.request.span.zone),
    _text("filters", lambda report, row: report.filters),
)
