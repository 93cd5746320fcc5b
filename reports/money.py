"""Budgets against what a month has cost so far, and the statements of closed months."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext as _

from reports import numbers
from reports.columns import iso
from reports.consumption import ReportRequest, Row, Segment, make_report
from reports.csv_export import stream
from reports.periods import Span, make_span, parse_instant
from reports.refused import ReportRefused
from scheduler.core.usage import CURRENCY
from scheduler.core.vocabulary import Level
from scheduler.operations import money as operations
from scheduler.operations.authority import Authority
from scheduler.queries import money as queries
from scheduler.queries import usage_names
from scheduler.queries.csv_text import guard
from scheduler.queries.money import BudgetRow, StatementRow
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility

Line = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One unit's month so far. Costs are exact; the forecast goes on at the month's mean rate."""

    unit: BudgetRow
    month: str
    cost: int
    forecast: int
    #: Whole percent of the budget, rounded down; None: there is none.
    spent_percent: int | None
    forecast_percent: int | None

    @property
    def spent_permille(self) -> int | None:
        """Return thousandths of the budget, rounded down; None: there is none."""
        return _part(self.cost, self.unit.monthly, of=1000)

    @property
    def level(self) -> str:
        """Return how it stands: "over" from 100 percent on, "near" from 80, else empty."""
        worst = max(self.spent_percent or 0, self.forecast_percent or 0)
        return "over" if worst >= 100 else "near" if worst >= 80 else ""


def month_span(*, month: str, zone: str, now: datetime) -> Span:
    """Return the calendar month of a name such as 2026-11, cut at now.

    Raises:
        ReportRefused: no month, or one that has not begun.
    """
    if not operations.MONTH.fullmatch(month):
        raise ReportRefused(_("Give a month such as 2026-11."))
    begin = parse_instant(text=f"{month}-01", zone=zone)
    following = (begin.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    end = parse_instant(text=following.isoformat(), zone=zone)
    return make_span(from_at=begin, to_at=end, zone=zone, now=now)


def month_of(*, now: datetime, zone: str) -> str:
    """Return the running month's name in a zone."""
    return f"{now.astimezone(parse_instant(text='2026-01-01', zone=zone).tzinfo):%Y-%m}"


def month_before(month: str) -> str:
    """Return the name of the month before one."""
    first = date.fromisoformat(f"{month}-01")
    return f"{first - timedelta(days=1):%Y-%m}"


def budget_lines(*, visible: Visibility, now: datetime) -> list[BudgetLine]:
    """Return each unit that a caller sees, with the running month's cost; departments first."""
    zone = usage_names.read_cluster_facts().time_zone
    month = month_of(now=now, zone=zone)
    span = month_span(month=month, zone=zone, now=now)
    whole = _whole_us(month, zone)
    costs: dict[tuple[Level, str], int] = defaultdict(int)
    for level, segment in (
        (Level.DEPARTMENT, Segment.DEPARTMENT),
        (Level.PROJECT, Segment.PROJECT),
    ):
        request = ReportRequest(span=span, segment=segment)
        for row in make_report(visible=visible, request=request, now=now).units:
            costs[level, row.unit.id] += row.figures.cost
    elapsed = max(1, span.to_us - span.from_us)
    return [
        _line(unit, month, costs[unit.level, str(unit.unit_id)], whole, elapsed)
        for unit in queries.list_units(visible=visible)
    ]


def _line(unit: BudgetRow, month: str, cost: int, whole: int, elapsed: int) -> BudgetLine:
    forecast = cost * whole // elapsed
    return BudgetLine(
        unit=unit,
        month=month,
        cost=cost,
        forecast=forecast,
        spent_percent=_part(cost, unit.monthly, of=100),
        forecast_percent=_part(forecast, unit.monthly, of=100),
    )


def _part(cost: int, monthly: Decimal | None, *, of: int) -> int | None:
    if monthly is None:
        return None
    return of * 100 * cost // (int(monthly * 100) * CURRENCY)


def _whole_us(month: str, zone: str) -> int:
    """Return how long a calendar month is; one with a change of clocks is an hour off."""
    begin = parse_instant(text=f"{month}-01", zone=zone)
    following = (begin.date() + timedelta(days=32)).replace(day=1)
    end = parse_instant(text=following.isoformat(), zone=zone)
    return int((end.timestamp() - begin.timestamp()) * 1_000_000)


# --- Statements -----------------------------------------------------------------------------------


def close(*, month: str, authority: Authority, now: datetime) -> int:
    """Freeze a month that has ended; return its statement's number.

    Raises:
        NotPermitted: only system admins.
        ReportRefused: no month, or it has not ended.
        StateRefused: it or a later one is closed.
    """
    operations.require_closer(authority)
    zone, lines, corrections = prepare(month=month, now=now)
    return operations.close_month(
        month=month, zone=zone, lines=lines, corrections=corrections, authority=authority, now=now
    )


def prepare(*, month: str, now: datetime) -> tuple[str, list[Line], list[Line]]:
    """Return zone, lines and corrections of a month that is to be closed.

    Raises:
        ReportRefused: no month, or it has not ended.
    """
    zone = usage_names.read_cluster_facts().time_zone
    lines = _lines(month, zone, now, ended=True)
    corrections: list[Line] = []
    for closed, changed in outstanding(now=now).items():
        corrections += [{**line, "month": closed} for line in changed]
    return zone, lines, corrections


def outstanding(*, now: datetime) -> dict[str, list[Line]]:
    """Return by closed month what its projects cost more or less by now than was stated so far."""
    told: dict[str, dict[tuple[str, str], int]] = {}
    zones: dict[str, str] = {}
    for statement in queries.list_statements(visible=WHOLE_CLUSTER):
        zones[statement.month] = statement.zone
        for line in statement.lines:
            _add(told, statement.month, line)
        for line in statement.corrections:
            _add(told, line["month"], line)
    found: dict[str, list[Line]] = {}
    for month, zone in sorted(zones.items()):
        stated = told.get(month, {})
        current = {_key(line): line for line in _lines(month, zone, now, ended=True)}
        changed: list[Line] = []
        for key in sorted({*stated, *current}):
            difference = int(current[key]["cost"] if key in current else 0) - stated.get(key, 0)
            if difference:
                named = current.get(key) or _named(month, key)
                changed.append({**named, "cost": str(difference)})
        if changed:
            found[month] = changed
    return found


def _add(told: dict[str, dict[tuple[str, str], int]], month: str, line: Line) -> None:
    of_month = told.setdefault(month, {})
    of_month[_key(line)] = of_month.get(_key(line), 0) + int(line["cost"])


def _key(line: Line) -> tuple[str, str]:
    return line["department_id"], line["project_id"]


def _named(month: str, key: tuple[str, str]) -> Line:
    """Return a stated line of a project that costs nothing any more."""
    for statement in queries.list_statements(visible=WHOLE_CLUSTER):
        if statement.month == month:
            return next(line for line in statement.lines if _key(line) == key)
    raise LookupError(month)


def _lines(month: str, zone: str, now: datetime, *, ended: bool) -> list[Line]:
    span = month_span(month=month, zone=zone, now=now)
    if ended and span.cut:
        raise ReportRefused(
            _("{month} has not ended yet. Close it afterwards.").format(month=month)
        )
    request = ReportRequest(span=span, segment=Segment.PROJECT)
    report = make_report(visible=WHOLE_CLUSTER, request=request, now=now)
    return [_statement_line(row) for row in report.units if row.figures.allocated]


def _statement_line(row: Row) -> Line:
    """Return a project's line; amounts are exact integrals as text, in the units of core/usage.py."""
    figures = row.figures
    return {
        "project_id": row.unit.id,
        "project": row.unit.name,
        "department_id": str(row.unit.department_id),
        "department": row.unit.department,
        "allocated": str(figures.allocated),
        "idle": str(figures.idle),
        "cost": str(figures.cost),
        "idle_cost": str(figures.idle_cost),
    }


def total(lines: Sequence[Line], name: str) -> int:
    """Return the sum of one exact amount."""
    return sum(int(line[name]) for line in lines)


def statement_csv(*, statement: StatementRow) -> Iterator[bytes]:
    """Yield a closed month as CSV: its lines, then corrections of earlier months, each with its month."""
    header = [
        "statement",
        "month",
        "kind",
        "project_id",
        "project",
        "department_id",
        "department",
        "gpu_allocation_hours",
        "gpu_idle_hours",
        "cost",
        "idle_cost",
        "currency",
        "closed_at",
        "timezone",
    ]
    trailing = [statement.currency, iso(statement.closed_at), statement.zone]

    def cells(line: Line, month: str, kind: str) -> list[str]:
        correction = kind == "correction"
        return [
            str(statement.number),
            month,
            kind,
            line["project_id"],
            guard(line["project"]),
            line["department_id"],
            guard(line["department"]),
            "" if correction else numbers.gpu_hours(int(line["allocated"])),
            "" if correction else numbers.gpu_hours(int(line["idle"])),
            numbers.money(int(line["cost"])),
            "" if correction else numbers.money(int(line["idle_cost"])),
            *trailing,
        ]

    rows = [cells(line, statement.month, "use") for line in statement.lines]
    rows += [cells(line, line["month"], "correction") for line in statement.corrections]
    return stream(header=header, lines=rows)
