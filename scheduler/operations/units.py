"""What people do with departments and projects beside their quotas: make, rename, move, delete."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest
from django.utils.text import slugify

from scheduler import events, models
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import END_PHASES, Level, ReplicaPhase
from scheduler.operations import assets, audit, quota_schedules
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import Problem, QuotaRefused
from scheduler.operations.steady_clock import steady_us
from scheduler.operations.unit_rows import find_department, find_project

COLORS = 8


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
        raise _departments_are_for_admins(None)
    name = _check_name(name, models.Department.objects.filter(name=name, deleted_at=None))
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
    department = find_department(department_id=department_id, authority=authority)
    if not authority.may(Action.PROJECT_QUOTA, department_id=department_id):
        raise _projects_are_for_admins(department, department)
    name = _check_name(name, models.Project.objects.filter(name=name, deleted_at=None))
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
def change_department(
    *, department_id: int, name: str, authority: Authority, now: datetime
) -> models.Department:
    """Give a department another name.

    Raises:
        NotFound, NotPermitted: as for its quota.
        QuotaRefused: the name is empty or taken.
    """
    department = find_department(department_id=department_id, authority=authority)
    if not authority.may(Action.DEPARTMENT_QUOTA, department_id=department.pk):
        raise _departments_are_for_admins(department)
    others = models.Department.objects.filter(deleted_at=None).exclude(pk=department.pk)
    before = {"name": department.name}
    department.name = _check_name(name, others.filter(name=name.strip()))
    department.save(update_fields=["name"])
    audit.record(
        authority=authority,
        now=now,
        action="department.change",
        target=department,
        before=before,
        after={"name": department.name},
    )
    events.wake_on_commit()
    return department


@transaction.atomic
def change_project(
    *,
    project_id: int,
    name: str,
    color: int,
    department_id: int,
    authority: Authority,
    now: datetime,
) -> models.Project:
    """Give a project another name, color or department; rights are asked for both departments.

    Raises:
        NotFound, NotPermitted: as for its quota, in the old department and in the new one.
        QuotaRefused: the name is empty or taken, or work of it runs while it would be moved.
    """
    project = find_project(project_id=project_id, authority=authority)
    target = find_department(department_id=department_id, authority=authority)
    for department in (project.department, target):
        if not authority.may(Action.PROJECT_QUOTA, department_id=department.pk):
            raise _projects_are_for_admins(department, project)
    if target.pk != project.department_id:
        _refuse_while_held(project, "can't be moved")
    if not 1 <= color <= COLORS:
        raise QuotaRefused(
            [
                Problem(
                    field="color",
                    code="bad_color",
                    message=f"Choose a color, 1 to {COLORS}.",
                    params={"most": COLORS},
                )
            ]
        )
    others = models.Project.objects.filter(deleted_at=None).exclude(pk=project.pk)
    before = _facts(project)
    project.name = _check_name(name, others.filter(name=name.strip()))
    project.color = color
    if target.pk != project.department_id:
        _leave_schedules(Level.PROJECT, project.pk, authority, now)
        _move(project, target, now)
    project.save()
    audit.record(
        authority=authority,
        now=now,
        action="project.change",
        target=project,
        before=before,
        after=_facts(project),
    )
    _changed()
    return project


@transaction.atomic
def delete_project(*, project_id: int, authority: Authority, now: datetime) -> models.Project:
    """Take a project away; its hours stay in the ledger.

    Raises:
        NotFound, NotPermitted: as for its quota.
        QuotaRefused: it has work that runs or waits.
    """
    project = find_project(project_id=project_id, authority=authority)
    if not authority.may(Action.PROJECT_QUOTA, department_id=project.department_id):
        raise _projects_are_for_admins(project.department, project)
    _refuse_while_held(project, "can't be deleted")
    _leave_schedules(Level.PROJECT, project.pk, authority, now)
    project.deleted_at = now
    project.save(update_fields=["deleted_at"])
    assets.delete_assets_of(project=project, department=None, now=now)
    _end_history(now, project=project)
    audit.record(
        authority=authority,
        now=now,
        action="project.delete",
        target=project,
        before=_facts(project),
    )
    _changed()
    return project


@transaction.atomic
def delete_department(
    *, department_id: int, authority: Authority, now: datetime
) -> models.Department:
    """Take a department away that has no project any more; its hours stay in the ledger.

    Raises:
        NotFound, NotPermitted: as for its quota.
        QuotaRefused: it has projects.
    """
    department = find_department(department_id=department_id, authority=authority)
    if not authority.may(Action.DEPARTMENT_QUOTA, department_id=department.pk):
        raise _departments_are_for_admins(department)
    projects = department.projects.filter(deleted_at=None).order_by("id")
    if projects:
        names = ", ".join(project.name for project in projects)
        raise QuotaRefused(
            [
                Problem(
                    field="name",
                    code="has_projects",
                    message=f"{department.name} has projects ({names}). Delete or move them first.",
                    params={"name": department.name, "projects": names},
                    unit=f"department-{department.pk}",
                )
            ]
        )
    _leave_schedules(Level.DEPARTMENT, department.pk, authority, now)
    department.deleted_at = now
    department.save(update_fields=["deleted_at"])
    assets.delete_assets_of(project=None, department=department, now=now)
    _end_history(now, department=department, project=None)
    audit.record(authority=authority, now=now, action="department.delete", target=department)
    _changed()
    return department


def _leave_schedules(level: Level, unit_id: int, authority: Authority, now: datetime) -> None:
    """What is scheduled for it was promised for where it was; it goes without it."""
    models.Cluster.objects.locked()
    quota_schedules.leave_schedules(key=(level, unit_id), authority=authority, now=now)


def _refuse_while_held(project: models.Project, what: str) -> None:
    in_play = models.Workload.objects.filter(
        ~Q(phase__in=END_PHASES), project=project, deleted_at=None
    ).count()
    held_mgpu = sum(
        models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
        .filter(workload__project=project)
        .values_list("mgpu", flat=True)
    )
    if not in_play and not held_mgpu:
        return
    raise QuotaRefused(
        [
            Problem(
                field="name",
                code="project_in_use",
                message=(
                    f"{project.name} {what}: {in_play} of its workloads run or wait, holding "
                    f"{format_gpu(held_mgpu)}. Stop them first."
                ),
                params={"name": project.name, "n": in_play, "held": held_mgpu},
                unit=f"project-{project.pk}",
            )
        ]
    )


def _facts(project: models.Project) -> dict[str, object]:
    return {"name": project.name, "color": project.color, "department": project.department.name}


def _move(project: models.Project, target: models.Department, now: datetime) -> None:
    """Move a project; the ledger counts its quota for the new department from now on."""
    project.department = target
    asked_us = steady_us(now)
    for row in models.QuotaHistory.objects.filter(project=project, to_us__isnull=True):
        at_us = row.to_us = max(asked_us, row.from_us)
        row.save(update_fields=["to_us"])
        row.pk = None
        row.department, row.from_us, row.to_us = target, at_us, None
        row.save()


def _end_history(now: datetime, **where: object) -> None:
    models.QuotaHistory.objects.filter(to_us__isnull=True, **where).update(
        to_us=Greatest(F("from_us"), steady_us(now))
    )


def _changed() -> None:
    models.Cluster.objects.filter(pk=1).update(generation=F("generation") + 1)
    events.wake_on_commit()


def _departments_are_for_admins(department: models.Department | None) -> NotPermitted:
    return NotPermitted(
        "Only a system admin may make, change and delete departments. Ask one.",
        code="departments_are_for_admins",
        target=department,
    )


def _projects_are_for_admins(department: models.Department, target: object) -> NotPermitted:
    """Return the refusal for who may not make, change or delete projects in a department."""
    return NotPermitted(
        f"You may not make, change or delete projects in {department.name}. Ask its admin.",
        code="projects_are_for_admins",
        params={"department": department.name},
        target=target,
    )


def _check_name(name: str, taken: object) -> str:
    """Return the name as it is kept; ``taken`` are the units that have it already."""
    text = name.strip()
    if not text or len(text) > 63:
        raise QuotaRefused(
            [
                Problem(
                    field="name", code="bad_unit_name", message="Give a name of 1 to 63 characters."
                )
            ]
        )
    if taken.exists():  # type: ignore[attr-defined]
        raise QuotaRefused(
            [
                Problem(
                    field="name",
                    code="is_there_already",
                    message=f"{text} is there already. Choose another name.",
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
