"""Budgets and closed months, with the rights of the page."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
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
    return lists.Page[StatementOut](
        items=[
            StatementOut(
                **{name: getattr(row, name) for name in _STATED},
                cost=numbers.money(money.total(row.lines, "cost")),
                corrections=numbers.money(money.total(row.corrections, "cost")),
            )
            for row in rows
            if row.lines or row.corrections
        ]
    )


_STATED = ("number", "month", "zone", "currency", "closed_at", "closed_by")


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
