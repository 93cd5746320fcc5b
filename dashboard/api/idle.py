"""Idle time: which holdings can be given back, and the rules that give them back."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import MOST_INT, Strict
from scheduler.core.idle import Limits, RuleKind
from scheduler.operations import idle as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import idle_holdings as queries

router = Router(tags=["Idle time"])


class IdleOut(Schema):
    """One workload whose devices show no activity. ``limit_s`` null: no rule will stop it."""

    workload_id: int
    name: str
    project_id: int
    kind: str
    owner: str
    held_mgpu: int
    idle_s: int
    idle_since: datetime
    limit_s: int | None
    left_s: int | None
    kept_at: datetime | None
    owner_may_keep: bool
    cost_micro: int | None

    @staticmethod
    def of(row: queries.IdleRow) -> IdleOut:
        """Return a row as it is answered."""
        names = set(IdleOut.model_fields) - {"cost_micro"}
        return IdleOut(
            **{name: getattr(row, name) for name in names},
            cost_micro=None if row.cost is None else int(row.cost * 1_000_000),
        )


class IdleRuleOut(Schema):
    """The rule for one kind of work; ``outer``: what the department of a project allows."""

    kind: RuleKind
    idle_limit_s: int | None
    runtime_limit_s: int | None
    owner_may_keep: bool
    outer_idle_s: int | None
    outer_runtime_s: int | None


class IdleRulesOut(Schema):
    """A department or project with its rules, one for each kind of work that may have one."""

    id: int
    is_department: bool
    name: str
    department_id: int
    rules: list[IdleRuleOut]

    @staticmethod
    def of(unit: queries.RuleUnit) -> IdleRulesOut:
        """Return a unit as it is answered."""
        names = set(IdleRulesOut.model_fields) - {"rules"}
        return IdleRulesOut(
            **{name: getattr(unit, name) for name in names},
            rules=[IdleRuleOut.from_orm(rule) for rule in unit.rules],
        )


class IdleRuleIn(Strict):
    """What a rule says. Without any limit it is taken away."""

    idle_limit_s: int | None = Field(None, ge=0, le=MOST_INT, description="Stopped after so long.")
    runtime_limit_s: int | None = Field(None, ge=0, le=MOST_INT, description="Runs at most.")
    owner_may_keep: bool = True

    def limits(self) -> Limits:
        """Return it as the operations take it."""
        return Limits(**self.model_dump())


@router.get("/idle", response={200: lists.Page[IdleOut], **READS}, summary="What is idle now")
def list_idle(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[IdleOut]:
    """The most GPU time first; services too, which no rule stops."""
    found = queries.list_idle(visible=who(request).visible, now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.workload_id)
    return lists.Page[IdleOut](
        items=[IdleOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.get(
    "/idle-rules", response={200: list[IdleRulesOut], **READS}, summary="Rules on idle time"
)
def list_rules(request: HttpRequest) -> list[IdleRulesOut]:
    """Each department before its projects. Inference has none: it scales to zero."""
    return [IdleRulesOut.of(unit) for unit in queries.list_rules(visible=who(request).visible)]


@router.put(
    "/departments/{department_id}/idle-rules/{kind}",
    response={200: IdleRulesOut, **WRITES},
    summary="Set a department's rule",
)
def set_departments(
    request: HttpRequest, department_id: lists.Id, kind: str, given: IdleRuleIn
) -> IdleRulesOut:
    """For what is submitted from now on; its projects may only tighten it."""
    return _set(request, operations.Place(department_id=department_id), kind, given)


@router.put(
    "/projects/{project_id}/idle-rules/{kind}",
    response={200: IdleRulesOut, **WRITES},
    summary="Set a project's rule",
)
def set_projects(
    request: HttpRequest, project_id: lists.Id, kind: str, given: IdleRuleIn
) -> IdleRulesOut:
    """For what is submitted from now on; at most what its department allows."""
    return _set(request, operations.Place(project_id=project_id), kind, given)


def _set(
    request: HttpRequest, place: operations.Place, kind: str, given: IdleRuleIn
) -> IdleRulesOut:
    caller = who(request)
    operations.set_policy(
        place=place,
        kind=kind,
        limits=given.limits(),
        authority=caller.authority,
        now=timezone.now(),
    )
    is_department = place.project_id is None
    unit_id = place.department_id if is_department else place.project_id
    for unit in queries.list_rules(visible=caller.visible):
        if (unit.is_department, unit.id) == (is_department, unit_id):
            return IdleRulesOut.of(unit)
    raise NotFound("unit")
