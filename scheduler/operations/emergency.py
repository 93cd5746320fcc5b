"""Emergency controls: pause starts, freeze reclaim and preemption, hold one workload; each has an end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from scheduler import events, models
from scheduler.core.emergency import ControlKind
from scheduler.core.vocabulary import END_PHASES, Phase
from scheduler.operations import audit, notices
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, Refused, StateRefused

#: An emergency that lasts longer is no emergency: set it anew.
MOST = timedelta(days=30)
MOST_REASON = 300

Target = models.Workload | models.Project | models.Department | models.Cluster


class EmergencyRefused(Refused):
    """A control that can't be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be controlled, why, and until when. No scope: the whole cluster."""

    kind: str
    reason: str
    until: datetime
    department_id: int | None = None
    project_id: int | None = None
    workload_id: int | None = None


@transaction.atomic
def set_control(*, order: Order, authority: Authority, now: datetime) -> models.EmergencyControl:
    """Put a control in force. One of the same kind over the same scope is replaced.

    Raises:
        NotFound: a scope or workload that is not there for the caller.
        NotPermitted: the cluster is for system admins, a department and its projects for its admin,
            one workload for admins of its project.
        EmergencyRefused: no such kind, no reason, or an end that can't be.
        StateRefused: a workload that has ended.
    """
    problems = _problems(order, now)
    if problems:
        raise EmergencyRefused(problems)
    kind = ControlKind(order.kind)
    target = _find_target(kind, order, authority)
    cluster = models.Cluster.objects.locked()
    _require(kind, target, authority)
    if isinstance(target, models.Workload) and Phase(target.phase) in END_PHASES:
        raise StateRefused([_ended(target)])
    scope = _columns(target)
    same = models.EmergencyControl.objects.filter(kind=kind, ended_at=None, **scope)
    replaced = same.order_by("-id").first()
    _close(same, authority, now)
    control = models.EmergencyControl.objects.create(
        kind=kind,
        **scope,
        reason=order.reason.strip(),
        set_by=authority.name,
        set_at=now,
        until=order.until,
    )
    audit.record(
        authority=authority,
        now=now,
        action=f"emergency.{kind.value}",
        target=target,
        before={}
        if replaced is None
        else {"until": replaced.until.isoformat(), "reason": replaced.reason},
        after={"until": order.until.isoformat(), "reason": control.reason},
        reason=control.reason,
    )
    _tell(control, "emergency_set", now, skip=authority.name)
    _renew(cluster)
    return control


@transaction.atomic
def end_control(*, control_id: int, authority: Authority, now: datetime) -> models.EmergencyControl:
    """End a control before its time.

    Raises:
        NotFound, NotPermitted: as for setting it.
        StateRefused: it has ended.
    """
    control = models.EmergencyControl.objects.filter(pk=control_id).first()
    if control is None:
        raise NotFound("control")
    target = _target_of(control)
    _see(target, authority)
    cluster = models.Cluster.objects.locked()
    _require(ControlKind(control.kind), target, authority)
    if not _close(models.EmergencyControl.objects.filter(pk=control_id), authority, now):
        raise StateRefused(
            [
                Problem(
                    field="control",
                    code="control_has_ended",
                    message="This control has ended already.",
                )
            ]
        )
    audit.record(
        authority=authority,
        now=now,
        action="emergency.end",
        target=target,
        before={"kind": control.kind, "until": control.until.isoformat()},
        reason=control.reason,
    )
    _tell(control, "emergency_ended", now, skip=authority.name)
    _renew(cluster)
    control.refresh_from_db()
    return control


def end_those_due(*, now: datetime) -> int:
    """Close controls whose time is over and say so; return how many. The core needs no such word."""
    due = models.EmergencyControl.objects.filter(ended_at=None, until__lte=now)
    if not models.Cluster.objects.filter(has_controls=True).exists() or not due.exists():
        return 0
    with transaction.atomic():
        cluster = models.Cluster.objects.locked()
        rows = list(due.select_related("workload", "project", "department"))
        for row in rows:
            models.EmergencyControl.objects.filter(pk=row.pk).update(ended_at=row.until)
            _tell(row, "emergency_ended", now)
        _renew(cluster)
    return len(rows)


def may_control(
    *,
    kind: ControlKind,
    authority: Authority,
    department_id: int | None = None,
    project_id: int | None = None,
) -> bool:
    """Test whether the caller may set or end such a control; a hold names its workload's project.

    The freeze is the cluster's alone: to keep one's own work from being reclaimed is to keep back what
    others are guaranteed.
    """
    if kind is ControlKind.FREEZE or department_id is None:
        return authority.may(Action.NODES)
    if kind is ControlKind.PAUSE:
        project_id = None  # for the department's admin, also over one project
    return authority.may(Action.POLICY, project_id=project_id, department_id=department_id)


def _problems(order: Order, now: datetime) -> list[Problem]:
    problems = []
    if order.kind not in set(ControlKind):
        problems.append(
            Problem(field="kind", code="bad_control", message="Use pause, freeze or hold.")
        )
    elif (order.kind == ControlKind.HOLD) != (order.workload_id is not None):
        problems.append(
            Problem(
                field="workload_id",
                code="hold_names_a_workload",
                message="A hold names one workload; nothing else does.",
            )
        )
    elif [order.department_id, order.project_id, order.workload_id].count(None) < 2:
        problems.append(
            Problem(
                field="workload_id" if order.workload_id is not None else "project_id",
                code="control_names_one",
                message="Name one thing: a department, a project or a workload. Leave the others out.",
            )
        )
    elif order.kind == ControlKind.FREEZE and (order.department_id or order.project_id):
        problems.append(
            Problem(
                field="kind",
                code="freeze_is_whole",
                message="A freeze holds in the whole cluster: leave the scope out.",
            )
        )
    if not 1 <= len(order.reason.strip()) <= MOST_REASON:
        problems.append(
            Problem(
                field="reason",
                code="control_needs_reason",
                message=f"Say why, in 1 to {MOST_REASON} characters: everyone concerned reads it.",
                params={"most": MOST_REASON},
            )
        )
    if not now < order.until <= now + MOST:
        problems.append(
            Problem(
                field="until",
                code="bad_control_end",
                message=f"Let it end within {MOST.days} days from now.",
                params={"days": MOST.days},
            )
        )
    return problems


def _find_target(kind: ControlKind, order: Order, authority: Authority) -> Target:
    target: Target | None
    if kind is ControlKind.HOLD:
        workloads = models.Workload.objects.select_related("project__department")
        target = workloads.filter(pk=order.workload_id or 0, deleted_at=None).first()
    elif order.project_id is not None:
        projects = models.Project.objects.select_related("department")
        target = projects.filter(pk=order.project_id, deleted_at=None).first()
    elif order.department_id is not None:
        target = models.Department.objects.filter(pk=order.department_id, deleted_at=None).first()
    else:
        target = models.Cluster.objects.one()
    if target is None:
        raise NotFound("scope")
    _see(target, authority)
    return target


def _target_of(control: models.EmergencyControl) -> Target:
    return control.workload or control.project or control.department or models.Cluster.objects.one()


def _see(target: Target, authority: Authority) -> None:
    match target:
        case models.Workload(project=project) | (models.Project() as project):
            seen = authority.sees_project(
                project_id=project.pk, department_id=project.department_id
            )
        case models.Department():
            seen = authority.sees_department(department_id=target.pk)
        case _:
            seen = True
    if not seen:
        raise NotFound("scope")


def _require(kind: ControlKind, target: Target, authority: Authority) -> None:
    department_id, project_id = _places(target)
    if may_control(
        kind=kind, authority=authority, department_id=department_id, project_id=project_id
    ):
        return
    whole = isinstance(target, models.Cluster)
    raise NotPermitted(
        "Only a system admin may control the whole cluster. Ask one."
        if whole
        else f"You may not do this to {target.name}. Ask the admin of its department.",
        code="controls_are_for_admins" if whole else "control_is_above_own",
        params={"name": target.name},
        target=target,
    )


def _places(target: Target) -> tuple[int | None, int | None]:
    """Return the department and the project that a target lies in."""
    match target:
        case models.Workload(project=project) | (models.Project() as project):
            return project.department_id, project.pk
        case models.Department():
            return target.pk, None
        case _:
            return None, None


def _columns(target: Target) -> dict[str, Target | None]:
    """Return the columns by which a control names its target."""
    match target:
        case models.Workload():
            return {"workload": target, "project": target.project, "department": None}
        case models.Project():
            return {"workload": None, "project": target, "department": None}
        case models.Department():
            return {"workload": None, "project": None, "department": target}
        case _:
            return {"workload": None, "project": None, "department": None}


def _close(rows: QuerySet[models.EmergencyControl], authority: Authority, now: datetime) -> int:
    return rows.filter(ended_at=None).update(ended_at=now, ended_by=authority.name)


def _renew(cluster: models.Cluster) -> None:
    """Let plans that were made before be thrown away, and the next tick and all pages read anew."""
    is_any = models.EmergencyControl.objects.filter(ended_at=None).exists()
    models.Cluster.objects.filter(pk=cluster.pk).update(
        generation=F("generation") + 1, has_controls=is_any
    )
    events.wake_on_commit()


def _tell(control: models.EmergencyControl, code: str, now: datetime, *, skip: str = "") -> None:
    """Tell those who see the scope; of a hold the owner of the workload."""
    target = _target_of(control)
    params = {
        "kind": control.kind,
        "scope": "" if isinstance(target, models.Cluster) else target.name,
        "until": control.until.isoformat(),
        "reason": control.reason,
    }
    if isinstance(target, models.Workload):
        if target.submitted_by != skip:
            notices.tell_owner(workload=target, code=code, params=params, now=now)
        return
    notices.announce(
        code=code,
        params=params,
        audience=notices.EVERYONE if isinstance(target, models.Cluster) else "see",
        now=now,
        department=target if isinstance(target, models.Department) else None,
        project=target if isinstance(target, models.Project) else None,
        skip=skip,
    )


def _ended(workload: models.Workload) -> Problem:
    return Problem(
        field="workload_id",
        code="nothing_to_hold",
        message=f"{workload.name} has ended: there is nothing to hold.",
        params={"name": workload.name},
    )
