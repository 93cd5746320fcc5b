"""Rules on idle time and duration: set by admins, copied into work, put off by *Keep*."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduler import events, models
from scheduler.core import idle as core
from scheduler.core.idle import Limits, RuleKind
from scheduler.core.instants import optional_us, to_us
from scheduler.core.vocabulary import Kind, Phase
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, Refused, StateRefused

#: Shorter limits would end work between two readings.
LEAST_S = 10
#: A year.
MOST_S = 366 * 86_400


class PolicyRefused(Refused):
    """A rule on idle time or duration that can't be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rule stands: a department or one of its projects."""

    department_id: int | None = None
    project_id: int | None = None


@transaction.atomic
def set_policy(
    *, place: Place, kind: str, limits: Limits, authority: Authority, now: datetime
) -> models.IdlePolicy | None:
    """Set or take away the rule for one kind of work; work that was submitted before keeps its own.

    Without any limit the rule is taken away, and None is returned.

    Raises:
        NotFound, NotPermitted: as for the department or project.
        PolicyRefused: inference, a number that can't be, or a project that would loosen.
    """
    unit = _find_unit(place, authority)
    problems = _problems(unit, kind, limits)
    if problems:
        raise PolicyRefused(problems)
    where = {"department": unit} if isinstance(unit, models.Department) else {"project": unit}
    row = models.IdlePolicy.objects.filter(kind=kind, **where).first()
    before = _facts(row)
    if limits.idle_limit_s is None and limits.runtime_limit_s is None:
        models.IdlePolicy.objects.filter(kind=kind, **where).delete()
        row = None
    else:
        row, _made = models.IdlePolicy.objects.update_or_create(
            kind=kind,
            **where,
            defaults={
                "idle_limit_s": limits.idle_limit_s,
                "runtime_limit_s": limits.runtime_limit_s,
                "owner_may_keep": limits.owner_may_keep,
            },
        )
    audit.record(
        authority=authority,
        now=now,
        action="idle_policy.set",
        target=unit,
        before={"kind": kind, **before},
        after={"kind": kind, **_facts(row)},
    )
    return row


@transaction.atomic
def keep_workload(*, workload_id: int, authority: Authority, now: datetime) -> models.Workload:
    """Set a workload's idle clock back, at most once in half an hour.

    Raises:
        NotFound, NotPermitted: admins of the project may, and its owner where the rule allows it.
        StateRefused: it has no idle rule, does not run, or was kept less than half an hour ago.
    """
    workload = (
        models.Workload.objects.select_for_update(of=("self",))
        .select_related("project")
        .filter(pk=workload_id, deleted_at__isnull=True)
        .first()
    )
    if workload is None or not authority.sees_project(
        project_id=workload.project_id, department_id=workload.project.department_id
    ):
        raise NotFound("workload")
    if not may_keep(workload=workload, authority=authority):
        raise NotPermitted(
            f"The rule of {workload.project.name} lets only its admins keep idle work.",
            code="keep_is_for_admins",
            target=workload,
            params={"project": workload.project.name},
        )
    if workload.idle_limit_s is None or Phase(workload.phase) is not Phase.RUNNING:
        raise StateRefused(
            [
                Problem(
                    field="state",
                    code="nothing_to_keep",
                    message=f"{workload.name} has no idle rule or does not run.",
                    params={"name": workload.name},
                )
            ]
        )
    if not core.may_keep_again(kept_at_us=optional_us(workload.kept_at), now_us=to_us(now)):
        raise StateRefused(
            [
                Problem(
                    field="state",
                    code="kept_already",
                    message="It was kept less than 30 minutes ago. Use it, or wait.",
                )
            ]
        )
    workload.kept_at = now
    workload.idle_warned_percent = 0
    workload.save(update_fields=["kept_at", "idle_warned_percent"])
    models.WorkloadEvent.objects.create(
        workload=workload, at=now, code="kept", params={"by": authority.name}
    )
    audit.record(authority=authority, now=now, action="workload.keep", target=workload)
    events.wake_on_commit()
    return workload


def may_keep(*, workload: models.Workload, authority: Authority) -> bool:
    """Test whether the caller may set the idle clock of the workload back."""
    place = {
        "project_id": workload.project_id,
        "department_id": workload.project.department_id,
    }
    if authority.may(Action.POLICY, **place):
        return True
    is_owner = workload.submitted_by == authority.name
    return workload.owner_may_keep and is_owner and authority.may(Action.WORK, **place)


def limits_for(*, project: models.Project, kind: Kind, preemptible: bool) -> Limits:
    """Return the limits that work submitted now gets: the tighter of department and project."""
    rule = core.rule_kind(kind=kind, preemptible=preemptible)
    if rule is None:
        return Limits(owner_may_keep=False)
    rows = models.IdlePolicy.objects.filter(kind=rule)
    outer = rows.filter(department_id=project.department_id).first()
    inner = rows.filter(project=project).first()
    return core.tighten(outer=_limits(outer), inner=_limits(inner))


def _find_unit(place: Place, authority: Authority) -> models.Department | models.Project:
    if place.project_id is not None:
        project = models.Project.objects.filter(pk=place.project_id, deleted_at=None).first()
        if project is None or not authority.sees_project(
            project_id=project.pk, department_id=project.department_id
        ):
            raise NotFound("project")
        _require(authority, project)
        return project
    department = models.Department.objects.filter(
        pk=place.department_id or 0, deleted_at=None
    ).first()
    if department is None or not authority.sees_department(department_id=department.pk):
        raise NotFound("department")
    _require(authority, department)
    return department


def _require(authority: Authority, unit: models.Department | models.Project) -> None:
    name = unit.name
    project_id = unit.pk if isinstance(unit, models.Project) else None
    department_id = unit.department_id if isinstance(unit, models.Project) else unit.pk
    if not authority.may(Action.POLICY, project_id=project_id, department_id=department_id):
        raise NotPermitted(
            f"You may not change the rules of {name}. Ask its admin.",
            code="rules_are_for_admins",
            params={"name": name},
            target=unit,
        )


def _problems(unit: models.Department | models.Project, kind: str, limits: Limits) -> list[Problem]:
    if kind == Kind.INFERENCE:
        return [
            Problem(
                field="kind",
                code="no_idle_rule_for_inference",
                message=(
                    "Inference has no idle rule: a service that waits for requests is not idle by "
                    "mistake. Let it scale to zero instead: minimum 0 and a retention time."
                ),
            )
        ]
    if kind not in set(RuleKind):
        return [Problem(field="kind", code="bad_kind", message="There is no such kind of rule.")]
    problems = []
    for field in ("idle_limit_s", "runtime_limit_s"):
        value = getattr(limits, field)
        if value is not None and not LEAST_S <= value <= MOST_S:
            problems.append(
                Problem(
                    field=field,
                    code="bad_limit",
                    message=f"Use {LEAST_S} seconds to one year, or leave it empty.",
                    params={"least": LEAST_S},
                )
            )
    return problems or _loosened(unit, kind, limits)


def _loosened(unit: models.Department | models.Project, kind: str, limits: Limits) -> list[Problem]:
    """Return where a project would allow more than its department does."""
    if isinstance(unit, models.Department):
        return []
    outer = models.IdlePolicy.objects.filter(kind=kind, department_id=unit.department_id).first()
    found = []
    for field in ("idle_limit_s", "runtime_limit_s"):
        bound, value = getattr(outer, field, None), getattr(limits, field)
        if bound is not None and value is not None and value > bound:
            found.append(
                Problem(
                    field=field,
                    code="looser_than_department",
                    message=(f"The department allows {bound} s. A project may only tighten that."),
                    params={"bound": bound},
                )
            )
    return found


def _limits(row: models.IdlePolicy | None) -> Limits | None:
    if row is None:
        return None
    return Limits(
        idle_limit_s=row.idle_limit_s,
        runtime_limit_s=row.runtime_limit_s,
        owner_may_keep=row.owner_may_keep,
    )


def _facts(row: models.IdlePolicy | None) -> dict[str, object]:
    if row is None:
        return {}
    return {
        "idle_limit_s": row.idle_limit_s,
        "runtime_limit_s": row.runtime_limit_s,
        "owner_may_keep": row.owner_may_keep,
    }
