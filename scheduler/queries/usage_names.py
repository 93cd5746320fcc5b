"""Names for the ids in the ledger: hours follow ids, names are labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.queries.former_names import FormerName, read_former_names
from scheduler.queries.usage_facts import hours_of
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitName:
    """A name as of now. Deleted ones keep their last."""

    id: int
    name: str
    deleted_at: datetime | None = None
    #: Number of the project's hue; 0: it has none.
    color: int = 0
    #: The department that a project belongs to now; 0 for others.
    department_id: int = 0
    #: What it was called before, in order of time.
    former: tuple[FormerName, ...] = ()

    def as_of(self, begin: datetime) -> UnitName:
        """Return it without former names that were gone before ``begin``."""
        kept = tuple(one for one in self.former if one.until > begin)
        return self if kept == self.former else replace(self, former=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names by id."""

    departments: dict[int, UnitName]
    projects: dict[int, UnitName]
    pools: dict[int, UnitName]

    def as_of(self, begin: datetime) -> Names:
        """Return them without former names that were gone before ``begin``."""
        return replace(
            self,
            departments={id_: one.as_of(begin) for id_, one in self.departments.items()},
            projects={id_: one.as_of(begin) for id_, one in self.projects.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a report says of the cluster."""

    name: str
    currency: str
    time_zone: str


def read_names(*, visible: Visibility) -> Names:
    """Return the names that may stand on a caller's report: also of what it saw hours of. Four queries."""
    departments = models.Department.objects.filter(
        visible.departments() | Q(id__in=_department_ids_of_hours(visible))
    ).distinct()
    own = visible.projects()
    projects = models.Project.objects.filter(own | Q(id__in=_project_ids_of_hours(visible)))
    former = read_former_names()
    return Names(
        departments={
            row.id: UnitName(
                id=row.id,
                name=row.name,
                deleted_at=row.deleted_at,
                former=former.get(("department", row.id), ()),
            )
            for row in departments.order_by("name", "id")
        },
        projects={
            row.id: UnitName(
                id=row.id,
                name=row.name,
                deleted_at=row.deleted_at,
                color=row.color,
                department_id=row.department_id,
                former=former.get(("project", row.id), ()),
            )
            for row in projects.order_by("name", "id")
        },
        pools={
            row.id: UnitName(id=row.id, name=row.name)
            for row in _pools(visible).order_by("name", "id")
        },
    )


def read_workload_names(*, ids: Iterable[int]) -> dict[int, str]:
    """Return the names of workloads whose hours the caller was given."""
    return dict(models.Workload.objects.filter(id__in=list(ids)).values_list("id", "name"))


def read_cluster_facts() -> ClusterFacts:
    """Return the cluster's name, currency and time zone."""
    cluster = models.Cluster.objects.one()
    return ClusterFacts(name=cluster.name, currency=cluster.currency, time_zone=cluster.time_zone)


def _pools(visible: Visibility) -> QuerySet[models.NodePool]:
    rows = models.NodePool.objects.all()
    return rows if visible.scratch else rows.filter(scratch=False)


def _department_ids_of_hours(visible: Visibility) -> object:
    rows = models.QuotaHistory.objects.filter(hours_of(visible), project__isnull=False)
    return rows.values("department_id")


def _project_ids_of_hours(visible: Visibility) -> object:
    rows = models.QuotaHistory.objects.filter(hours_of(visible), project__isnull=False)
    return rows.values("project_id")
