"""One department or project by its address, for whom it exists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """A unit. A deleted one keeps its page, for its hours."""

    level: Level
    id: int
    slug: str
    name: str
    color: int
    department_id: int
    department: str
    department_slug: str
    deleted_at: datetime | None


def find_unit(*, visible: Visibility, level: Level, slug: str) -> UnitRow | None:
    """Return a unit, or None where there is none for the caller.

    A department is there only for whom sees all of it: its page tells of the whole.
    """
    if level is Level.PROJECT:
        project = (
            models.Project.objects.select_related("department")
            .filter(visible.projects(), slug=slug)
            .first()
        )
        return None if project is None else _row(level, project, project.department)
    whole = Q() if visible.cluster else Q(id__in=visible.department_ids)
    department = models.Department.objects.filter(visible.departments(), whole, slug=slug).first()
    return None if department is None else _row(level, department, department)


def read_slugs(*, visible: Visibility) -> dict[str, str]:
    """Return the addresses of living units by "project-3" or "department-1". Two queries."""
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None)
    found = {f"project-{pk}": slug for pk, slug in projects.values_list("pk", "slug")}
    whole = Q() if visible.cluster else Q(id__in=visible.department_ids)
    departments = models.Department.objects.filter(visible.departments(), whole, deleted_at=None)
    return found | {f"department-{pk}": slug for pk, slug in departments.values_list("pk", "slug")}


def _row(
    level: Level, unit: models.Department | models.Project, department: models.Department
) -> UnitRow:
    return UnitRow(
        level=level,
        id=unit.pk,
        slug=unit.slug,
        name=unit.name,
        color=getattr(unit, "color", 0),
        department_id=department.pk,
        department=department.name,
        department_slug=department.slug,
        deleted_at=unit.deleted_at,
    )
