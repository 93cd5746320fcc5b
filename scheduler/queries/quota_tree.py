"""The rows of quotas of one pool, as they are edited: values, version, and what is held now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Q

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Level, ReplicaPhase
from scheduler.queries.pool_state import PoolRow, list_pools
from scheduler.queries.visibility import Visibility

FIELDS = tuple(QueueQuota.__dataclass_fields__)
Key = tuple[Level, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """A department or a project in one pool. Version 0: it has no row there yet."""

    level: Level
    id: int
    name: str
    color: int
    department_id: int
    quota: QueueQuota
    version: int
    held_mgpu: int
    #: What non-preemptible work holds, and that work's names.
    protected_mgpu: int
    holders: tuple[str, ...]
    #: False: a reader of one project sees only the name of its department.
    known: bool = True

    @property
    def key(self) -> Key:
        """Return what tells it from all other rows of the pool."""
        return self.level, self.id

    @property
    def unit(self) -> str:
        """Return the key as text, for forms and problems."""
        return unit_name(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTree:
    """Each department followed by its projects."""

    pool: PoolRow
    rows: tuple[QuotaRow, ...]
    #: What the healthy devices of the pool have; what of it is held, by whomever.
    capacity_mgpu: int
    allocated_mgpu: int
    #: Of all departments its reader sees: sums and parts of the whole may be told.
    whole: bool = True
    #: What others hold may be told as an amount.
    tells_others: bool = True

    def row(self, key: Key) -> QuotaRow | None:
        """Return the row of a department or project, or None where it is not there."""
        return next((row for row in self.rows if row.key == key), None)

    def siblings(self, row: QuotaRow) -> tuple[QuotaRow, ...]:
        """Return the rows that share a parent with ``row``, itself included."""
        return tuple(
            other
            for other in self.rows
            if other.level is row.level
            and (row.level is Level.DEPARTMENT or other.department_id == row.department_id)
        )

    def children(self, row: QuotaRow) -> tuple[QuotaRow, ...]:
        """Return the projects of a department."""
        return tuple(
            other
            for other in self.rows
            if other.level is Level.PROJECT and other.department_id == row.id
        )

    def with_quotas(self, quotas: dict[Key, QueueQuota]) -> QuotaTree:
        """Return the tree as it would be with other quotas."""
        rows = tuple(
            replace(row, quota=quotas[row.key]) if row.key in quotas else row for row in self.rows
        )
        return replace(self, rows=rows)


def unit_name(key: Key) -> str:
    """Return a key as text: "project-3"."""
    return f"{key[0].value}-{key[1]}"


def read_quota_tree(*, visible: Visibility, pool_name: str = "") -> QuotaTree | None:
    """Return the rows that a reader sees of the named pool, or of the first. Seven queries."""
    pools = list_pools(visible=visible)
    pool = next((row for row in pools if row.name == pool_name), pools[0] if pools else None)
    return None if pool is None else read_pool_tree(visible=visible, pool=pool)


def read_pool_tree(*, visible: Visibility, pool: PoolRow) -> QuotaTree:
    """Return the rows that a reader sees of one pool."""
    holds = _holds(pool.id)
    projects = models.Project.objects.filter(visible.projects(), deleted_at__isnull=True)
    departments = models.Department.objects.filter(visible.departments(), deleted_at__isnull=True)
    of_projects = _by(models.ProjectQuota.objects.filter(pool_id=pool.id), "project_id")
    of_departments = _by(models.DepartmentQuota.objects.filter(pool_id=pool.id), "department_id")
    of_department: dict[int, list[QuotaRow]] = defaultdict(list)
    for project in projects.order_by("id"):
        of_department[project.department_id].append(
            _project_row(project, of_projects.get(project.pk), holds.get(project.pk, []))
        )
    rows: list[QuotaRow] = []
    held_by_department: dict[int, list[_Held]] = defaultdict(list)
    for project_id, department_id in models.Project.objects.values_list("pk", "department_id"):
        held_by_department[department_id].extend(holds.get(project_id, []))
    for department in departments.distinct().order_by("id"):
        known = visible.cluster or department.pk in visible.department_ids
        own = held_by_department[department.pk]
        rows.append(
            _department_row(department, of_departments.get(department.pk), own, known=known)
        )
        rows.extend(of_department[department.pk])
    devices = models.Device.objects.filter(node__pool_id=pool.id, healthy=True)
    return QuotaTree(
        pool=pool,
        rows=tuple(rows),
        capacity_mgpu=devices.count() * WHOLE_GPU_MGPU,
        allocated_mgpu=sum(each.mgpu for held in holds.values() for each in held),
        whole=visible.cluster,
        tells_others=visible.tells_others,
    )


@dataclass(frozen=True, slots=True)
class _Held:
    name: str
    mgpu: int
    protected: bool


def _holds(pool_id: int) -> dict[int, list[_Held]]:
    """Return what each project's work holds, one entry a workload."""
    found: dict[tuple[int, str, bool], int] = defaultdict(int)
    rows = models.Replica.objects.filter(~Q(phase=ReplicaPhase.ENDED), workload__pool_id=pool_id)
    for project_id, name, preemptible, mgpu in rows.values_list(
        "workload__project_id", "workload__name", "workload__preemptible", "mgpu"
    ):
        found[project_id, name, not preemptible] += mgpu
    held: dict[int, list[_Held]] = defaultdict(list)
    for (project_id, name, protected), mgpu in sorted(found.items()):
        held[project_id].append(_Held(name, mgpu, protected))
    return held


def _by(rows: Iterable[object], key: str) -> dict[int, object]:
    return {getattr(row, key): row for row in rows}


def _project_row(project: models.Project, row: object, held: list[_Held]) -> QuotaRow:
    return QuotaRow(
        level=Level.PROJECT,
        id=project.pk,
        name=project.name,
        color=project.color,
        department_id=project.department_id,
        **_common(row, held),  # type: ignore[arg-type]
    )


def _department_row(
    department: models.Department, row: object, held: list[_Held], *, known: bool
) -> QuotaRow:
    return QuotaRow(
        level=Level.DEPARTMENT,
        id=department.pk,
        name=department.name,
        color=0,
        department_id=department.pk,
        known=known,
        **_common(row if known else None, held if known else []),  # type: ignore[arg-type]
    )


def _common(row: object, held: list[_Held]) -> dict[str, object]:
    protected = [each for each in held if each.protected and each.mgpu]
    return {
        "quota": as_quota(row),
        "version": getattr(row, "version", 0),
        "held_mgpu": sum(each.mgpu for each in held),
        "protected_mgpu": sum(each.mgpu for each in protected),
        "holders": tuple(each.name for each in protected),
    }


def as_quota(row: object) -> QueueQuota:
    """Return a table's row as the core's values; a unit without one is guaranteed nothing."""
    if row is None:
        return QueueQuota()
    return QueueQuota(**{name: getattr(row, name) for name in FIELDS})
