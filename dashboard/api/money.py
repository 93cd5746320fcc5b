"""Budgets and closed months, with the rights of the page."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import Caller, who
from dashboard.api.errors import READS, WRITES
from dashboard.api.report_query import file_answer
from dashboard.api.submission import Strict
from dashboard.downloads import streamed
from reports import money, numbers
from scheduler.core.vocabulary import Level
from scheduler.operations import money as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import money as queries
from scheduler.queries import usage_names

router = Router(tags=["Consumption"])


class BudgetOut(Schema):
    """One unit's running month: cost so far and by its end, in the cluster's currency, as decimal text."""

    level: Level
    unit_id: int
    name: str
    department_id: int
    month: str
    currency: str
    monthly: str | None
    cost: str
    forecast: str
    spent_percent: int | None
    forecast_percent: int | None


class BudgetIn(Strict):
    """What a unit may cost a calendar month; null: it has no budget."""

    monthly: Decimal | None = Field(max_digits=14, decimal_places=2)


class CloseIn(Strict):
    """The month that is to be closed; it has ended in the cluster's zone."""

    month: str = Field(max_length=7, examples=["2026-11"])


class StatementOut(Schema):
    """One closed month; cost and corrections of the lines that the caller sees."""

    number: int
    month: str
    zone: str
    currency: str
    closed_at: datetime
    closed_by: str
    cost: str
    corrections: str


@router.get(
    "/budgets", response={200: lists.Page[BudgetOut], **READS}, summary="Budgets of this month"
)
def list_budgets(request: HttpRequest) -> lists.Page[BudgetOut]:
    """Each department and project that one sees, with its cost, whether or not it has a budget."""
    currency = usage_names.read_cluster_facts().currency
    lines = money.budget_lines(visible=who(request).visible, now=timezone.now())
    return lists.Page[BudgetOut](items=[_budget(line, currency) for line in lines])


@router.put(
    "/budgets/projects/{project_id}",
    response={200: BudgetOut, **WRITES},
    summary="Set a project's budget",
)
def set_project_budget(request: HttpRequest, project_id: int, body: BudgetIn) -> BudgetOut:
    """For those who may change its guarantee."""
    return _set(request, Level.PROJECT, project_id, body)


@router.put(
    "/budgets/departments/{department_id}",
    response={200: BudgetOut, **WRITES},
    summary="Set a department's budget",
)
def set_department_budget(request: HttpRequest, department_id: int, body: BudgetIn) -> BudgetOut:
    """For those who may change its guarantee."""
    return _set(request, Level.DEPARTMENT, department_id, body)


@router.get(
    "/statements", response={200: lists.Page[StatementOut], **READS}, summary="Closed months"
)
def list_statements(request: HttpRequest) -> lists.Page[StatementOut]:
    """The newest first, cut to what one sees."""
    rows = queries.list_statements(visible=who(request).visible)
    return lists.Page[StatementOut](items=[_statement(row) for row in rows])


@router.post("/statements", response={201: StatementOut, **WRITES}, summary="Close a month")
def close_month(request: HttpRequest, body: CloseIn) -> Status[StatementOut]:
    """For system admins; for good. What changes of it later is stated as corrections of later months."""
    caller = who(request)
    number = money.close(month=body.month, authority=caller.authority, now=timezone.now())
    return Status(201, _statement(_find(caller, number)))


@router.get(
    "/statements/{number}.csv",
    response={200: None, **READS},
    summary="A closed month as CSV",
    openapi_extra=file_answer(
        "Its lines, then corrections of earlier months, each with its month."
    ),
)
def statement_csv(
    request: HttpRequest, number: int = param.Path(ge=1, le=2**31 - 1)
) -> HttpResponseBase:
    """Cut to what one sees."""
    found = _find(who(request), number)
    name = f"tidegate-statement-{found.number}-{found.month}.csv"
    return streamed(money.statement_csv(statement=found), name)


def _find(caller: Caller, number: int) -> queries.StatementRow:
    found = queries.read_statement(visible=caller.visible, number=number)
    if found is None:
        raise NotFound("statement")
    return found


def _statement(row: queries.StatementRow) -> StatementOut:
    return StatementOut(
        number=row.number,
        month=row.month,
        zone=row.zone,
        currency=row.currency,
        closed_at=row.closed_at,
        closed_by=row.closed_by,
        cost=numbers.money(money.total(row.lines, "cost")),
        corrections=numbers.money(money.total(row.corrections, "cost")),
    )


def _set(request: HttpRequest, level: Level, unit_id: int, body: BudgetIn) -> BudgetOut:
    caller, now = who(request), timezone.now()
    operations.set_budget(
        level=level, unit_id=unit_id, monthly=body.monthly, authority=caller.authority, now=now
    )
    for line in money.budget_lines(visible=caller.visible, now=now):
        if (line.unit.level, line.unit.unit_id) == (level, unit_id):
            return _budget(line, usage_names.read_cluster_facts().currency)
    raise NotFound(level.value)


def _budget(line: money.BudgetLine, currency: str) -> BudgetOut:
    unit = line.unit
    return BudgetOut(
        level=unit.level,
        unit_id=unit.unit_id,
        name=unit.name,
        department_id=unit.department_id,
        month=line.month,
        currency=currency,
        monthly=None if unit.monthly is None else f"{unit.monthly:.2f}",
        cost=numbers.money(line.cost),
        forecast=numbers.money(line.forecast),
        spent_percent=line.spent_percent,
        forecast_percent=line.forecast_percent,
    )
