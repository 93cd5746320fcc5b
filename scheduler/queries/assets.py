"""Assets that a reader may see: lists, one in full with who uses it, and what a form may offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, AssetKind
from scheduler.queries.visibility import Visibility

SHOWN_USES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetRow:
    """One asset. Of a credential the names of its values are told, never a value."""

    id: int
    kind: AssetKind
    name: str
    description: str
    #: Neither: the whole cluster.
    project_id: int | None
    project_name: str
    department_id: int | None
    department_name: str
    definition: Mapping[str, object]
    version: int
    updated_at: datetime
    #: Work of the reader's scope that has not ended and names it.
    used_by: int

    @property
    def scope_name(self) -> str:
        """Return the project's or department's name; empty for the whole cluster."""
        return self.project_name or self.department_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One workload that names an asset."""

    workload_id: int
    name: str
    project_name: str
    color: int
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetDetail:
    """One asset in full."""

    row: AssetRow
    #: The department above it, for the question who may change it.
    above_department_id: int | None
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """What a workload keeps of an asset: its kind, its name, and whether the asset is still there."""

    asset_id: int
    kind: str
    name: str
    definition: Mapping[str, object]
    deleted: bool


def list_assets(*, visible: Visibility, kind: AssetKind | None = None) -> tuple[AssetRow, ...]:
    """Return the reader's assets: the cluster's first, then departments', then projects', by name."""
    rows = _visible(visible)
    if kind is not None:
        rows = rows.filter(kind=kind)
    rows = rows.annotate(used_by=Count("uses", filter=_of_reader(visible), distinct=True))
    order = ("project__name", "department__name", "name")
    found = [_row(row) for row in rows.order_by(*order)]
    return tuple(sorted(found, key=lambda r: (bool(r.project_id), bool(r.department_id))))


def count_assets(*, visible: Visibility) -> dict[AssetKind, int]:
    """Return how many there are of each kind."""
    counts = dict(_visible(visible).values_list("kind").annotate(n=Count("id")).order_by("kind"))
    return {kind: counts.get(kind.value, 0) for kind in AssetKind}


def read_asset(*, visible: Visibility, asset_id: int) -> AssetDetail | None:
    """Return one asset, or None where there is none for the reader."""
    row = (
        _visible(visible)
        .filter(pk=asset_id)
        .annotate(used_by=Count("uses", filter=_of_reader(visible), distinct=True))
        .first()
    )
    if row is None:
        return None
    uses = (
        models.WorkloadAsset.objects.filter(
            visible.projects(prefix="workload__project__"),
            asset=row,
            workload__deleted_at__isnull=True,
        )
        .select_related("workload__project")
        .order_by("-workload_id")[:SHOWN_USES]
    )
    above = row.department_id if row.project is None else row.project.department_id
    return AssetDetail(
        row=_row(row),
        above_department_id=above,
        uses=tuple(
            Use(
                workload_id=use.workload_id,
                name=use.workload.name,
                project_name=use.workload.project.name,
                color=use.workload.project.color,
                phase=use.workload.phase,
            )
            for use in uses
        ),
    )


def list_mounted(*, visible: Visibility, workload_id: int) -> tuple[Mounted, ...]:
    """Return what a workload keeps of assets."""
    uses = models.WorkloadAsset.objects.filter(
        visible.projects(prefix="workload__project__"), workload_id=workload_id
    ).select_related("asset")
    return tuple(
        Mounted(
            asset_id=use.asset_id,
            kind=use.kind,
            name=use.name,
            definition=use.definition,
            deleted=use.asset.deleted_at is not None,
        )
        for use in uses.order_by("kind", "name")
    )


def _visible(visible: Visibility) -> QuerySet[models.Asset]:
    """Return what lies in the reader's scopes or above them."""
    rows = models.Asset.objects.filter(deleted_at=None).select_related("project", "department")
    if not (visible.cluster or visible.department_ids or visible.project_ids):
        return rows.none()
    departments = models.Department.objects.filter(visible.departments(), deleted_at=None)
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None)
    if not visible.scratch:
        rows = rows.filter(scratch=False)
    return rows.filter(
        Q(project=None, department=None)
        | Q(department_id__in=departments.values("pk"))
        | Q(project_id__in=projects.values("pk"))
    )


def _of_reader(visible: Visibility) -> Q:
    projects = models.Project.objects.filter(visible.projects())
    return Q(
        uses__workload__project_id__in=projects.values("pk"),
        uses__workload__deleted_at__isnull=True,
    ) & ~Q(uses__workload__phase__in=[phase.value for phase in END_PHASES])


def _row(row: models.Asset) -> AssetRow:
    return AssetRow(
        id=row.pk,
        kind=AssetKind(row.kind),
        name=row.name,
        description=row.description,
        project_id=row.project_id,
        project_name=row.project.name if row.project else "",
        department_id=row.department_id,
        department_name=row.department.name if row.department else "",
        definition=row.definition,
        version=row.version,
        updated_at=row.updated_at,
        used_by=int(getattr(row, "used_by", 0)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChoice:
    """A department or a project for which an asset may be defined."""

    name: str
    department_id: int
    #: None: the department itself.
    project_id: int | None = None


def list_scopes(*, visible: Visibility) -> tuple[ScopeChoice, ...]:
    """Return the reader's departments, each before its projects, by name."""
    departments = models.Department.objects.filter(visible.departments(), deleted_at=None)
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None)
    found = [
        ScopeChoice(name=name, department_id=pk)
        for pk, name in departments.distinct().order_by("name").values_list("pk", "name")
    ]
    rows = projects.order_by("name").values_list("pk", "name", "department_id")
    return (
        *found,
        *(ScopeChoice(name=name, department_id=above, project_id=pk) for pk, name, above in rows),
    )
