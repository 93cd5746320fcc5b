"""Budgets and closed months, as a caller may see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Q

from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """What a unit may cost a month. ``monthly`` None: it has no budget."""

    id: int
    level: Level
    unit_id: int
    name: str
    department_id: int
    color: int
    monthly: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """A closed month, its lines cut to what the caller sees."""

    number: int
    month: str
    zone: str
    currency: str
    closed_at: datetime
    closed_by: str
    lines: tuple[Mapping[str, str], ...]
    corrections: tuple[Mapping[str, str], ...]


def list_units(*, visible: Visibility) -> tuple[BudgetRow, ...]:
    """Return living departments and projects with their budgets, departments first. Two queries.

    A department stands here only for whom sees all of it.
    """
    whole = Q() if visible.cluster else Q(id__in=visible.department_ids)
    departments = models.Department.objects.filter(
        visible.departments(), whole, deleted_at=None
    ).select_related("budget")
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None).select_related(
        "budget"
    )
    rows = [
        _row(Level.DEPARTMENT, unit, unit.pk, 0) for unit in departments.order_by("name").distinct()
    ]
    rows += [
        _row(Level.PROJECT, unit, unit.department_id, unit.color)
        for unit in projects.order_by("name")
    ]
    return tuple(rows)


def _row(
    level: Level, unit: models.Department | models.Project, department_id: int, color: int
) -> BudgetRow:
    budget = getattr(unit, "budget", None)
    return BudgetRow(
        id=0 if budget is None else budget.pk,
        level=level,
        unit_id=unit.pk,
        name=unit.name,
        department_id=department_id,
        color=color,
        monthly=None if budget is None else budget.monthly,
    )


def list_statements(*, visible: Visibility) -> tuple[StatementRow, ...]:
    """Return the closed months, the newest first."""
    found = (_cut(row, visible) for row in models.Statement.objects.order_by("-number"))
    return tuple(row for row in found if _is_told(row, visible))


def read_statement(*, visible: Visibility, number: int) -> StatementRow | None:
    """Return one closed month, or None where there is none for the reader."""
    row = models.Statement.objects.filter(number=number).first()
    found = None if row is None else _cut(row, visible)
    return found if found is not None and _is_told(found, visible) else None


def _is_told(row: StatementRow, visible: Visibility) -> bool:
    """Test whether a month is the reader's: it has a line of theirs, or they see the whole cluster."""
    return visible.cluster or bool(row.lines or row.corrections)


def _cut(row: models.Statement, visible: Visibility) -> StatementRow:
    def seen(line: Mapping[str, str]) -> bool:
        return (
            visible.cluster
            or int(line["project_id"]) in visible.project_ids
            or int(line["department_id"]) in visible.department_ids
        )

    return StatementRow(
        number=row.number,
        month=row.month,
        zone=row.zone,
        currency=row.currency,
        closed_at=row.closed_at,
        closed_by=row.closed_by,
        lines=tuple(line for line in row.lines if seen(line)),
        corrections=tuple(line for line in row.corrections if seen(line)),
    )
