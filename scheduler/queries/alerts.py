"""Alert rules and alerts of a reader's scopes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.utils.translation import gettext as _

from scheduler import models
from scheduler.queries.visibility import Visibility

HISTORY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule and where it stands. ``scope_name`` empty: the whole cluster."""

    id: int
    name: str
    metric: str
    department_id: int | None
    project_id: int | None
    #: The department to which the scope belongs, for rights.
    of_department_id: int | None
    scope_name: str
    pool_id: int | None
    pool_name: str
    threshold: int
    for_s: int
    enabled: bool
    silenced_until: datetime | None
    silenced_by: str
    value: int | None
    looked_at: datetime | None
    raised_at: datetime | None

    @property
    def is_cluster(self) -> bool:
        """Test whether it is about the whole cluster."""
        return self.department_id is None and self.project_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """One alert, open or over."""

    id: int
    rule: RuleRow
    raised_at: datetime
    cleared_at: datetime | None
    threshold: int
    value: int
    peak: int
    silenced: bool
    acknowledged_by: str
    acknowledged_at: datetime | None
    comment: str


def list_rules(*, visible: Visibility, now: datetime) -> tuple[RuleRow, ...]:
    """Return the rules of the reader's scopes: the cluster's, then by name. Two queries."""
    rows = (
        models.AlertRule.objects.filter(_seen(visible))
        .select_related("department", "project", "pool")
        .distinct()
        .order_by("department_id", "project_id", "id")
    )
    open_alerts = dict(
        models.Alert.objects.filter(cleared_at=None).values_list("rule_id", "raised_at")
    )
    return tuple(_rule(row, open_alerts.get(row.pk), now) for row in rows)


def list_alerts(*, visible: Visibility, now: datetime) -> tuple[AlertRow, ...]:
    """Return alerts of the reader's scopes: those that are open, then the newest. One query."""
    rows = (
        models.Alert.objects.filter(rule__in=models.AlertRule.objects.filter(_seen(visible)))
        .select_related("rule__department", "rule__project", "rule__pool")
        .order_by("-raised_at", "-id")[:HISTORY]
    )
    found = [
        AlertRow(
            id=row.pk,
            rule=_rule(row.rule, row.raised_at if row.cleared_at is None else None, now),
            raised_at=row.raised_at,
            cleared_at=row.cleared_at,
            threshold=row.threshold,
            value=row.value,
            peak=row.peak,
            silenced=row.silenced,
            acknowledged_by=row.acknowledged_by,
            acknowledged_at=row.acknowledged_at,
            comment=row.comment,
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda row: row.cleared_at is not None))


def _seen(visible: Visibility) -> Q:
    """Return the rules whose scope the reader sees whole; the cluster's are for cluster readers."""
    if visible.cluster:
        return Q(department=None, project=None) | _in_trees(visible)
    return _in_trees(visible)


def _in_trees(visible: Visibility) -> Q:
    departments = Q(department__in=models.Department.objects.filter(visible.departments()))
    if not visible.cluster:
        departments = Q(department_id__in=visible.department_ids)
    return departments | Q(project__in=models.Project.objects.filter(visible.projects()))


def _rule(row: models.AlertRule, raised_at: datetime | None, now: datetime) -> RuleRow:
    unit = row.project or row.department
    silenced = row.silenced_until is not None and row.silenced_until > now
    return RuleRow(
        id=row.pk,
        name=_(row.name),
        metric=row.metric,
        department_id=row.department_id,
        project_id=row.project_id,
        of_department_id=row.project.department_id if row.project else row.department_id,
        scope_name=unit.name if unit is not None else "",
        pool_id=row.pool_id,
        pool_name=row.pool.name if row.pool is not None else "",
        threshold=row.threshold,
        for_s=row.for_s,
        enabled=row.enabled,
        silenced_until=row.silenced_until if silenced else None,
        silenced_by=row.silenced_by if silenced else "",
        value=row.value,
        looked_at=row.looked_at,
        raised_at=raised_at,
    )
