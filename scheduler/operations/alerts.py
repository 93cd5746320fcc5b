"""Alert rules and what people do with alerts: acknowledge, silence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import models
from scheduler.core.alerts import Metric
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, Refused, StateRefused
from scheduler.operations.unit_rows import find_department, find_project

MOST_S = 30 * 24 * 3600
SILENCED_AT_MOST = timedelta(days=30)
_PERMILLE = (Metric.IDLE_SHARE_PERMILLE, Metric.LIMIT_USED_PERMILLE)


class AlertRefused(Refused):
    """A rule that can't be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleValues:
    """What a rule says. Neither department nor project: the whole cluster."""

    name: str
    metric: str
    threshold: int
    for_s: int
    department_id: int | None = None
    project_id: int | None = None
    pool_id: int | None = None
    enabled: bool = True


@transaction.atomic
def save_rule(
    *, rule_id: int | None, values: RuleValues, authority: Authority, now: datetime
) -> models.AlertRule:
    """Make a rule, or set one anew; its clock begins anew, and an alert of it is over.

    Raises:
        NotFound: the rule, or the place that it is to be about, is not there for the caller.
        NotPermitted: whoever may not set rules there.
        AlertRefused: a value that can't be.
    """
    row = _find(rule_id, authority) if rule_id is not None else None
    if row is not None:
        _require(row.department, row.project, authority)
    department, project = _place(values, authority)
    _require(department, project, authority)
    pool = models.NodePool.objects.filter(pk=values.pool_id or 0, scratch=False).first()
    if values.pool_id is not None and pool is None:
        raise NotFound("pool")
    problems = _problems(values)
    if problems:
        raise AlertRefused(problems)
    before = _facts(row) if row is not None else {}
    row = row or models.AlertRule(created_by=authority.name, created_at=now)
    row.name, row.metric = values.name.strip(), values.metric
    row.threshold, row.for_s, row.enabled = values.threshold, values.for_s, values.enabled
    row.department, row.project, row.pool = department, project, pool
    row.since_us = row.looked_at = row.value = None
    row.save()
    row.alerts.filter(cleared_at=None).update(cleared_at=now)
    audit.record(
        authority=authority,
        now=now,
        action="alert_rule.set",
        target=row,
        before=before,
        after=_facts(row),
    )
    return row


@transaction.atomic
def delete_rule(*, rule_id: int, authority: Authority, now: datetime) -> None:
    """Take a rule away, with its history.

    Raises:
        NotFound, NotPermitted: as for ``save_rule``.
    """
    row = _find(rule_id, authority)
    _require(row.department, row.project, authority)
    audit.record(
        authority=authority, now=now, action="alert_rule.delete", target=row, before=_facts(row)
    )
    row.delete()


@transaction.atomic
def silence_rule(
    *, rule_id: int, until: datetime | None, authority: Authority, now: datetime
) -> models.AlertRule:
    """Tell nobody of a rule's alerts until then; None: tell again. They stand on the page all the same.

    Raises:
        NotFound, NotPermitted: as for ``save_rule``.
        AlertRefused: a time that is past, or more than 30 days away.
    """
    row = _find(rule_id, authority)
    _require(row.department, row.project, authority)
    if until is not None and not now < until <= now + SILENCED_AT_MOST:
        raise AlertRefused(
            [
                Problem(
                    field="until",
                    code="bad_silence",
                    message="Choose a time from now on, at most 30 days away.",
                )
            ]
        )
    before = {"silenced_until": _iso(row.silenced_until)}
    row.silenced_until = until
    row.silenced_by = authority.name if until is not None else ""
    row.save(update_fields=["silenced_until", "silenced_by"])
    audit.record(
        authority=authority,
        now=now,
        action="alert_rule.silence",
        target=row,
        before=before,
        after={"silenced_until": _iso(until)},
    )
    return row


@transaction.atomic
def acknowledge(
    *, alert_id: int, comment: str, authority: Authority, now: datetime
) -> models.Alert:
    """Say that one looks after an alert; once.

    Raises:
        NotFound, NotPermitted: as for the alert's rule.
        StateRefused: someone looks after it already.
    """
    alert = (
        models.Alert.objects.select_for_update(of=("self",))
        .select_related("rule__department", "rule__project__department")
        .filter(pk=alert_id)
        .first()
    )
    if alert is None or not _sees(alert.rule, authority):
        raise NotFound("alert")
    _require(alert.rule.department, alert.rule.project, authority)
    if alert.acknowledged_by:
        problem = Problem(
            field="state",
            code="acknowledged_already",
            message=f"{alert.acknowledged_by} looks after it already.",
            params={"who": alert.acknowledged_by},
        )
        raise StateRefused([problem])
    alert.acknowledged_by, alert.acknowledged_at = authority.name, now
    alert.comment = comment.strip()[:300]
    alert.save(update_fields=["acknowledged_by", "acknowledged_at", "comment"])
    audit.record(
        authority=authority,
        now=now,
        action="alert.acknowledge",
        target=alert.rule,
        after={"alert": alert.pk, "comment": alert.comment},
    )
    return alert


def _find(rule_id: int, authority: Authority) -> models.AlertRule:
    row = (
        models.AlertRule.objects.select_for_update(of=("self",))
        .select_related("department", "project__department")
        .filter(pk=rule_id)
        .first()
    )
    if row is None or not _sees(row, authority):
        raise NotFound("rule")
    return row


def _sees(row: models.AlertRule, authority: Authority) -> bool:
    if row.project is not None:
        return authority.sees_project(
            project_id=row.project.pk, department_id=row.project.department_id
        )
    if row.department is not None:
        return authority.sees_department(department_id=row.department.pk)
    return authority.may(Action.NODES)


def _place(
    values: RuleValues, authority: Authority
) -> tuple[models.Department | None, models.Project | None]:
    if values.project_id is not None:
        return None, find_project(project_id=values.project_id, authority=authority)
    if values.department_id is not None:
        return find_department(department_id=values.department_id, authority=authority), None
    return None, None


def _require(
    department: models.Department | None, project: models.Project | None, authority: Authority
) -> None:
    if project is not None:
        may = authority.may(
            Action.POLICY, project_id=project.pk, department_id=project.department_id
        )
    elif department is not None:
        may = authority.may(Action.POLICY, department_id=department.pk)
    else:
        may = authority.may(Action.NODES)
    if not may:
        unit = project or department
        where = unit.name if unit is not None else "the cluster"
        raise NotPermitted(
            f"You may not set alert rules of {where}. Ask its admin.",
            code="alert_rules_are_for_admins",
            params={"name": where},
            target=unit,
        )


def _problems(values: RuleValues) -> list[Problem]:
    found = []
    if not values.name.strip() or len(values.name.strip()) > 80:
        found.append(
            Problem(field="name", code="bad_alert_name", message="Use 1 to 80 characters.")
        )
    if values.metric not in set(Metric):
        found.append(Problem(field="metric", code="bad_metric", message="There is no such figure."))
    if not 0 <= values.for_s <= MOST_S:
        found.append(
            Problem(field="for_s", code="bad_duration", message="Use 0 seconds to 30 days.")
        )
    if values.metric == Metric.BUDGET_SPENT_PERMILLE and values.pool_id is not None:
        found.append(
            Problem(
                field="pool",
                code="budget_of_all_pools",
                message="A budget is for all node pools together. Choose all of them.",
            )
        )
    most = 1000 if values.metric in set(_PERMILLE) else 2**53
    if not 0 <= values.threshold <= most:
        found.append(
            Problem(
                field="threshold",
                code="bad_threshold",
                message="The threshold is out of the range of its figure.",
            )
        )
    return found


def _facts(row: models.AlertRule) -> dict[str, object]:
    return {
        "name": row.name,
        "metric": row.metric,
        "threshold": row.threshold,
        "for_s": row.for_s,
        "enabled": row.enabled,
        "department": row.department_id,
        "project": row.project_id,
        "pool": row.pool_id,
    }


def _iso(at: datetime | None) -> str:
    return at.isoformat() if at is not None else ""
