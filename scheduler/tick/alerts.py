"""Looks at the figures that alert rules watch; raises alerts and ends them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from scheduler import models
from scheduler.core import alerts as core
from scheduler.core.alerts import Change, Metric, State
from scheduler.core.instants import to_us
from scheduler.operations import notices
from scheduler.operations.authority import Action
from scheduler.queries.alert_values import Figures

LONGEST_GAP = timedelta(minutes=5)


def evaluate(*, now: datetime) -> None:
    """Look at every rule that is on. Figures are read once; without rules nothing is read."""
    rules = list(models.AlertRule.objects.filter(enabled=True).order_by("id"))
    if not rules:
        return
    figures = Figures(now=now)
    for rule in rules:
        place = (rule.department_id, rule.project_id, rule.pool_id)
        _look(rule.pk, figures.value(Metric(rule.metric), place), now)


@transaction.atomic
def _look(rule_id: int, value: int | None, now: datetime) -> None:
    rule = (
        models.AlertRule.objects.select_for_update(of=("self",))
        .select_related("department", "project__department")
        .filter(pk=rule_id)
        .first()
    )
    if rule is None:
        return
    alert = rule.alerts.filter(cleared_at=None).first()
    state, change = core.look(
        rule=core.Rule(
            threshold=rule.threshold,
            for_s=rule.for_s,
            clear_below=core.clear_below(threshold=rule.threshold),
        ),
        state=State(
            raised=alert is not None,
            since_us=rule.since_us if _is_watched(rule, now) else None,
            peak=alert.peak if alert is not None else None,
        ),
        value=value,
        now_us=to_us(now),
    )
    rule.since_us, rule.value, rule.looked_at = state.since_us, value, now
    rule.save(update_fields=["since_us", "value", "looked_at"])
    if change is Change.RAISED and value is not None:
        _raise(rule, value, now)
    elif alert is not None:
        _go_on(rule, alert, state, change, now)


def _is_watched(rule: models.AlertRule, now: datetime) -> bool:
    """Test whether the last look was a moment ago: of a time without looks nothing is known."""
    return rule.looked_at is not None and now - rule.looked_at <= LONGEST_GAP


def _raise(rule: models.AlertRule, value: int, now: datetime) -> None:
    silenced = is_silenced(rule, now)
    models.Alert.objects.create(
        rule=rule,
        raised_at=now,
        threshold=rule.threshold,
        value=value,
        peak=value,
        silenced=silenced,
    )
    if not silenced:
        _announce(rule, "alert_raised", value, now)


def _go_on(
    rule: models.AlertRule, alert: models.Alert, state: State, change: Change, now: datetime
) -> None:
    if change is Change.CLEARED:
        alert.cleared_at = now
        alert.save(update_fields=["cleared_at"])
        if not alert.silenced and not is_silenced(rule, now):
            _announce(rule, "alert_cleared", rule.value, now)
    elif state.peak is not None and state.peak > alert.peak:
        alert.peak = state.peak
        alert.save(update_fields=["peak"])


def is_silenced(rule: models.AlertRule, now: datetime) -> bool:
    """Test whether nobody is told of the rule's alerts now."""
    return rule.silenced_until is not None and rule.silenced_until > now


def _announce(rule: models.AlertRule, code: str, value: int | None, now: datetime) -> None:
    """Tell those who govern the scope: admins of the project, of the department, of the cluster."""
    unit = rule.project or rule.department
    notices.announce(
        code=code,
        params={
            "rule": rule.name,
            "metric": rule.metric,
            "scope": unit.name if unit is not None else "",
            "value": value,
            "threshold": rule.threshold,
            "for_s": rule.for_s,
        },
        audience=Action.POLICY if unit is not None else Action.NODES,
        department=rule.department,
        project=rule.project,
        now=now,
    )
