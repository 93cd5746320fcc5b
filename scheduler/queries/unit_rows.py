"""Departments and projects by themselves, as a reader may see them."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import models
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartmentRow:
    """A department."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow:
    """A project."""

    id: int
    name: str
    department_id: int
    color: int


def list_departments(*, visible: Visibility) -> tuple[DepartmentRow, ...]:
    """Return the departments that a reader sees, by id."""
    rows = models.Department.objects.filter(visible.departments(), deleted_at__isnull=True)
    return tuple(DepartmentRow(id=row.pk, name=row.name) for row in rows.distinct().order_by("id"))


def list_projects(*, visible: Visibility) -> tuple[ProjectRow, ...]:
    """Return the projects that a reader sees, by id."""
    rows = models.Project.objects.filter(visible.projects(), deleted_at__isnull=True)
    return tuple(
        ProjectRow(id=row.pk, name=row.name, department_id=row.department_id, color=row.color)
        for row in rows.order_by("id")
    )
