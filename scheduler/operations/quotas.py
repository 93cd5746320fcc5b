"""What people do with the hierarchy: make departments and projects, set quotas and limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F, Sum
from django.utils.text import slugify

from scheduler import events, models
from scheduler.core.instants import to_us
from scheduler.core.snapshot import UNLIMITED
from scheduler.core.units import UNLIMITED_MGPU, format_gpu
from scheduler.core.vocabulary import DEFAULT_WEIGHT, Rank, ReplicaPhase
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, QuotaRefused

COLORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValues:
    """One row of quotas. ``over_quota`` off sets the limit to the quota."""

    quota_mgpu: int = 0
    over_quota: bool = True
    limit_mgpu: int = UNLIMITED_MGPU
    rank: int = Rank.MEDIUM_LOW
    weight_milli: int = DEFAULT_WEIGHT * 1000
    cpu_quota_milli: int = UNLIMITED
    cpu_limit_milli: int = UNLIMITED
    memory_quota_mib: int = UNLIMITED
    memory_limit_mib: int = UNLIMITED


@transaction.atomic
def create_department(
    *, name: str, authority: Authority, now: datetime, scratch: bool = False
) -> models.Department:
    """Make a department, without any quota yet.

    Raises:
        NotPermitted: only those who may change departments' quotas.
        QuotaRefused: the name is empty or taken.
    """
    if not authority.may(Action.DEPARTMENT_QUOTA):
        raise NotPermitted("Only a system admin may make departments. Ask one.")
    name = _checked_name(name, models.Department.objects.filter(name=name, deleted_at=None))
    department = models.Department.objects.create(
        name=name, slug=_free_slug(name, models.Department), created_at=now, scratch=scratch
    )
    audit.record(authority=authority, now=now, action="department.create", target=department)
    return department


@transaction.atomic
def create_project(
    *, department_id: int, name: str, authority: Authority, now: datetime
) -> models.Project:
    """Make a project in a department, without any quota yet. Its color is the least used one."""
    department = models.Department.objects.filter(pk=department_id, deleted_at=None).first()
    if department is None:
        raise NotFound("department")
    if not authority.may(Action.PROJECT_QUOTA, department_id=department_id):
        raise NotPermitted(f"You may not make projects in {department.name}. Ask its admin.")
    name = _checked_name(name, models.Project.objects.filter(name=name, deleted_at=None))
    project = models.Project.objects.create(
        department=department,
        name=name,
        slug=_free_slug(name, models.Project),
        color=_least_used_color(),
        created_at=now,
    )
    audit.record(authority=authority, now=now, action="project.create", target=project)
    return project


@transaction.atomic
def set_department_quota(
    *,
    department_id: int,
    pool_id: int,
    values: QuotaValues,
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set a department's quota and limit in a pool. Returns warnings, with their figures.

    Raises:
        QuotaRefused: limit below quota, quota below what non-preemptible work holds, or (where the
            cluster forbids oversubscription) more than the pool has.
    """
    department = models.Department.objects.filter(pk=department_id, deleted_at=None).first()
    if department is None:
        raise NotFound("department")
    if not authority.may(Action.DEPARTMENT_QUOTA, department_id=department_id):
        raise NotPermitted(
            f"You may not change the quota of {department.name}. Ask a system admin."
        )
    cluster = models.Cluster.objects.locked()
    values = _normalized(values)
    problems = _quota_problems(values)
    problems += _protected_problems(
        values, department.name, _protected(pool_id, workload__project__department=department)
    )
    warnings = _pool_warnings(department, pool_id, values)
    warnings += _children_warnings(department, pool_id, values)
    _refuse_or_warn(problems, warnings, cluster)
    row, _ = models.DepartmentQuota.objects.get_or_create(department=department, pool_id=pool_id)
    before = _write(row, values)
    _history(department=department, project=None, pool_id=pool_id, values=values, now=now)
    _finish(authority, now, department, before, row, reason)
    return warnings


@transaction.atomic
def set_project_quota(
    *,
    project_id: int,
    pool_id: int,
    values: QuotaValues,
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set a project's quota and limit in a pool. Returns warnings, with their figures.

    Raises:
        QuotaRefused: as for a department; oversubscription is that of its department.
    """
    project = (
        models.Project.objects.select_related("department")
        .filter(pk=project_id, deleted_at=None)
        .first()
    )
    if project is None or not authority.sees_project(
        project_id=project.pk, department_id=project.department_id
    ):
        raise NotFound("project")
    if not authority.may(Action.PROJECT_QUOTA, department_id=project.department_id):
        raise NotPermitted(
            f"You may not change the quota of {project.name}. Ask its department's admin."
        )
    cluster = models.Cluster.objects.locked()
    values = _normalized(values)
    problems = _quota_problems(values)
    problems += _protected_problems(
        values, project.name, _protected(pool_id, workload__project=project)
    )
    warnings = _parent_warnings(project, pool_id, values)
    _refuse_or_warn(problems, warnings, cluster)
    row, _ = models.ProjectQuota.objects.get_or_create(project=project, pool_id=pool_id)
    before = _write(row, values)
    _history(
        department=project.department, project=project, pool_id=pool_id, values=values, now=now
    )
    _finish(authority, now, project, before, row, reason)
    return warnings


def _checked_name(name: str, taken: object) -> str:
    text = name.strip()
    if not text or len(text) > 63:
        raise QuotaRefused(
            [Problem(field="name", code="bad_name", message="Give a name of 1 to 63 characters.")]
        )
    if taken.exists():  # type: ignore[attr-defined]
        raise QuotaRefused(
            [
                Problem(
                    field="name",
                    code="name_taken",
                    message=f"There is already one called {text}. Choose another name.",
                    params={"name": text},
                )
            ]
        )
    return text


def _free_slug(name: str, model: type[models.Department] | type[models.Project]) -> str:
    base = slugify(name, allow_unicode=True) or "unit"
    slug, number = base, 1
    while model.objects.filter(slug=slug).exists():
        number += 1
        slug = f"{base}-{number}"
    return slug


def _least_used_color() -> int:
    used = list(models.Project.objects.filter(deleted_at=None).values_list("color", flat=True))
    return min(range(1, COLORS + 1), key=lambda color: (used.count(color), color))


def _normalized(values: QuotaValues) -> QuotaValues:
    if values.over_quota:
        return values
    fields = {name: getattr(values, name) for name in QuotaValues.__dataclass_fields__}
    return QuotaValues(**{**fields, "limit_mgpu": values.quota_mgpu})


def _quota_problems(values: QuotaValues) -> list[Problem]:
    problems: list[Problem] = []
    if values.quota_mgpu < 0:
        problems.append(
            Problem(field="quota", code="negative", message="A guarantee must not be negative.")
        )
    if values.limit_mgpu < values.quota_mgpu:
        problems.append(
            Problem(
                field="limit",
                code="limit_below_quota",
                message=(
                    f"The limit {format_gpu(values.limit_mgpu)} is below the guarantee "
                    f"{format_gpu(values.quota_mgpu)}. Raise the limit or lower the guarantee."
                ),
                params={"limit": values.limit_mgpu, "quota": values.quota_mgpu},
            )
        )
    return problems


def _protected(pool_id: int, **where: object) -> int:
    """Return what non-preemptible work holds there."""
    rows = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).filter(
        workload__pool_id=pool_id, workload__preemptible=False, **where
    )
    return int(rows.aggregate(total=Sum("mgpu"))["total"] or 0)


def _protected_problems(values: QuotaValues, name: str, protected_mgpu: int) -> list[Problem]:
    if values.quota_mgpu >= protected_mgpu:
        return []
    return [
        Problem(
            field="quota",
            code="quota_below_protected",
            message=(
                f"Non-preemptible work of {name} holds {format_gpu(protected_mgpu)}. The guarantee "
                "can't go below that: stop some of it first."
            ),
            params={"protected": protected_mgpu, "quota": values.quota_mgpu},
        )
    ]


def _pool_warnings(
    department: models.Department, pool_id: int, values: QuotaValues
) -> list[Problem]:
    others = (
        models.DepartmentQuota.objects.filter(pool_id=pool_id, department__deleted_at=None)
        .exclude(department=department)
        .aggregate(total=Sum("quota_mgpu"))["total"]
        or 0
    )
    devices = models.Device.objects.filter(node__pool_id=pool_id, healthy=True).count()
    return _oversubscription("pool", others + values.quota_mgpu, devices * 1000)


def _children_warnings(
    department: models.Department, pool_id: int, values: QuotaValues
) -> list[Problem]:
    children = (
        models.ProjectQuota.objects.filter(
            pool_id=pool_id, project__department=department, project__deleted_at=None
        ).aggregate(total=Sum("quota_mgpu"))["total"]
        or 0
    )
    return _oversubscription("projects", children, values.quota_mgpu)


def _parent_warnings(project: models.Project, pool_id: int, values: QuotaValues) -> list[Problem]:
    siblings = (
        models.ProjectQuota.objects.filter(
            pool_id=pool_id, project__department_id=project.department_id, project__deleted_at=None
        )
        .exclude(project=project)
        .aggregate(total=Sum("quota_mgpu"))["total"]
        or 0
    )
    parent = models.DepartmentQuota.objects.filter(
        department_id=project.department_id, pool_id=pool_id
    ).first()
    available = parent.quota_mgpu if parent else 0
    return _oversubscription("department", siblings + values.quota_mgpu, available)


def _oversubscription(where: str, promised_mgpu: int, available_mgpu: int) -> list[Problem]:
    if promised_mgpu <= available_mgpu:
        return []
    return [
        Problem(
            field="quota",
            code=f"oversubscribed_{where}",
            message=(
                f"The guarantees add up to {format_gpu(promised_mgpu)} of "
                f"{format_gpu(available_mgpu)}: not all can be kept at once."
            ),
            params={"promised": promised_mgpu, "available": available_mgpu},
        )
    ]


def _refuse_or_warn(
    problems: list[Problem], warnings: list[Problem], cluster: models.Cluster
) -> None:
    if cluster.forbid_oversubscription:
        problems = [*problems, *warnings]
    if problems:
        raise QuotaRefused(problems)


def _write(
    row: models.DepartmentQuota | models.ProjectQuota, values: QuotaValues
) -> dict[str, object]:
    """Write the values; return those before."""
    before: dict[str, object] = {}
    for name in QuotaValues.__dataclass_fields__:
        before[name] = getattr(row, name)
        setattr(row, name, getattr(values, name))
    row.version += 1
    row.save()
    return before


def _history(
    *,
    department: models.Department,
    project: models.Project | None,
    pool_id: int,
    values: QuotaValues,
    now: datetime,
) -> None:
    """Close the row of the ledger that was in force and open the next."""
    at_us = to_us(now)
    models.QuotaHistory.objects.filter(
        department=department, project=project, pool_id=pool_id, to_us__isnull=True
    ).update(to_us=at_us)
    models.QuotaHistory.objects.create(
        department=department,
        project=project,
        pool_id=pool_id,
        quota_mgpu=values.quota_mgpu,
        limit_mgpu=values.limit_mgpu,
        over_quota=values.over_quota,
        from_us=at_us,
    )


def _finish(
    authority: Authority,
    now: datetime,
    target: models.Department | models.Project,
    before: dict[str, object],
    row: models.DepartmentQuota | models.ProjectQuota,
    reason: str,
) -> None:
    models.Cluster.objects.filter(pk=1).update(generation=F("generation") + 1)
    after = {name: getattr(row, name) for name in before}
    audit.record(
        authority=authority,
        now=now,
        action="quota.set",
        target=target,
        before=before,
        after=after,
        reason=reason,
    )
    events.wake_on_commit()
