"""The departments and projects of a pool with their quotas, as far as a reader may see them."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import models
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A department's or project's row in the pool. ``listed`` False: it has none in this pool."""

    id: int
    listed: bool
    name: str
    slug: str
    color: int
    department_id: int
    quota_mgpu: int
    limit_mgpu: int
    over_quota: bool
    rank: int
    weight_milli: int


def load_projects(*, visible: Visibility, pool_id: int) -> dict[int, QueueState]:
    """Return the reader's projects by id; one without a quota in the pool is not listed there."""
    quotas = {row.project_id: row for row in models.ProjectQuota.objects.filter(pool_id=pool_id)}
    projects = models.Project.objects.filter(visible.projects(), deleted_at__isnull=True)
    return {
        project.id: _queue(
            quotas.get(project.id) or models.ProjectQuota(quota_mgpu=0),
            named=project,
            color=project.color,
            department_id=project.department_id,
            listed=project.id in quotas,
        )
        for project in projects.order_by("department_id", "id")
    }


def load_departments(*, visible: Visibility, pool_id: int) -> tuple[QueueState, ...]:
    """Return the departments that the reader may be told the name of, those with a quota in the pool."""
    rows = (
        models.DepartmentQuota.objects.filter(
            visible.departments(prefix="department__"),
            pool_id=pool_id,
            department__deleted_at__isnull=True,
        )
        .select_related("department")
        .order_by("department_id")
        .distinct()
    )
    return tuple(
        _queue(row, named=row.department, color=0, department_id=row.department_id) for row in rows
    )


def _queue(
    row: models.ProjectQuota | models.DepartmentQuota,
    *,
    named: models.Project | models.Department,
    color: int,
    department_id: int,
    listed: bool = True,
) -> QueueState:
    return QueueState(
        listed=listed,
        id=named.id,
        name=named.name,
        slug=named.slug,
        color=color,
        department_id=department_id,
        quota_mgpu=row.quota_mgpu,
        limit_mgpu=row.limit_mgpu,
        over_quota=row.over_quota,
        rank=row.rank,
        weight_milli=row.weight_milli,
    )


def find_open_departments(*, visible: Visibility) -> frozenset[int]:
    """Return the departments whose own figures may be shown."""
    if not visible.cluster:
        return visible.department_ids
    return frozenset(models.Department.objects.values_list("id", flat=True))
