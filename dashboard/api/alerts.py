"""Alerts and the rules behind them: for those who may set rules somewhere."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from access.scopes import UserAuthority
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.core.alerts import Metric
from scheduler.operations import alerts as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound
from scheduler.queries import alerts as queries

router = Router(tags=["Alerts"])
MOST_BIG = 2**53


class AlertRuleOut(Schema):
    """One rule and where it stands; threshold and value are in the unit of the metric's name."""

    id: int
    name: str
    metric: Metric
    department_id: int | None
    project_id: int | None
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


class AlertOut(Schema):
    """One time that a rule was broken for long enough."""

    id: int
    rule_id: int
    rule: str
    metric: Metric
    scope_name: str
    raised_at: datetime
    cleared_at: datetime | None
    threshold: int
    value: int
    peak: int
    silenced: bool
    acknowledged_by: str
    acknowledged_at: datetime | None
    comment: str

    @staticmethod
    def of(row: queries.AlertRow) -> AlertOut:
        """Return an alert as it is answered."""
        names = set(AlertOut.model_fields) - {"rule_id", "rule", "metric", "scope_name"}
        return AlertOut(
            **{name: getattr(row, name) for name in names},
            rule_id=row.rule.id,
            rule=row.rule.name,
            metric=Metric(row.rule.metric),
            scope_name=row.rule.scope_name,
        )


class AlertRuleIn(Strict):
    """What a rule says. Neither department nor project: the whole cluster. No pool: all of them."""

    name: str = Field(max_length=80)
    metric: Metric
    threshold: int = Field(ge=0, le=MOST_BIG)
    for_s: int = Field(ge=0, le=operations.MOST_S)
    department_id: lists.Id | None = None
    project_id: lists.Id | None = None
    pool_id: lists.Id | None = None
    enabled: bool = True

    def values(self) -> operations.RuleValues:
        """Return it as the operations take it."""
        return operations.RuleValues(**{**self.model_dump(), "metric": self.metric.value})


class SilenceIn(Strict):
    """Until when nobody is told; null: tell again."""

    until: lists.Instant | None


class AcknowledgeIn(Strict):
    """What one says to it."""

    comment: str = Field("", max_length=300)


@router.get("/alerts", response={200: lists.Page[AlertOut], **READS}, summary="List alerts")
def list_alerts(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[AlertOut]:
    """Those that are open first, then the newest."""
    _governing(request)
    found = queries.list_alerts(visible=who(request).visible, now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[AlertOut](
        items=[AlertOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post(
    "/alerts/{alert_id}/acknowledge",
    response={200: AlertOut, **WRITES},
    summary="Say that one looks after it",
)
def acknowledge(request: HttpRequest, alert_id: lists.Id, given: AcknowledgeIn) -> AlertOut:
    """Once."""
    operations.acknowledge(
        alert_id=alert_id,
        comment=given.comment,
        authority=_governing(request),
        now=timezone.now(),
    )
    found = queries.list_alerts(visible=who(request).visible, now=timezone.now())
    row = next((each for each in found if each.id == alert_id), None)
    if row is None:
        raise NotFound("alert")
    return AlertOut.of(row)


@router.get(
    "/alert-rules", response={200: lists.Page[AlertRuleOut], **READS}, summary="List alert rules"
)
def list_rules(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[AlertRuleOut]:
    """The cluster's first."""
    _governing(request)
    found = queries.list_rules(visible=who(request).visible, now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[AlertRuleOut](
        items=[AlertRuleOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.post("/alert-rules", response={201: AlertRuleOut, **WRITES}, summary="Make an alert rule")
def create_rule(request: HttpRequest, given: AlertRuleIn) -> Status[AlertRuleOut]:
    """Whoever may set rules there is told of its alerts."""
    made = operations.save_rule(
        rule_id=None, values=given.values(), authority=_governing(request), now=timezone.now()
    )
    return Status(201, _rule(request, made.pk))


@router.put(
    "/alert-rules/{rule_id}", response={200: AlertRuleOut, **WRITES}, summary="Set a rule anew"
)
def change_rule(request: HttpRequest, rule_id: lists.Id, given: AlertRuleIn) -> AlertRuleOut:
    """Its clock begins anew, and an alert of it is over."""
    operations.save_rule(
        rule_id=rule_id, values=given.values(), authority=_governing(request), now=timezone.now()
    )
    return _rule(request, rule_id)


@router.delete("/alert-rules/{rule_id}", response={204: None, **WRITES}, summary="Take a rule away")
def delete_rule(request: HttpRequest, rule_id: lists.Id) -> Status[None]:
    """With its history."""
    operations.delete_rule(rule_id=rule_id, authority=_governing(request), now=timezone.now())
    return Status(204, None)


@router.put(
    "/alert-rules/{rule_id}/silence",
    response={200: AlertRuleOut, **WRITES},
    summary="Tell nobody for a time",
)
def silence(request: HttpRequest, rule_id: lists.Id, given: SilenceIn) -> AlertRuleOut:
    """At most 30 days; its alerts stand on the page all the same."""
    operations.silence_rule(
        rule_id=rule_id, until=given.until, authority=_governing(request), now=timezone.now()
    )
    return _rule(request, rule_id)


def _governing(request: HttpRequest) -> UserAuthority:
    """Return the caller's authority; for who sets no rules there are none."""
    authority = who(request).authority
    if not authority.may_anywhere(Action.POLICY, Action.NODES):
        raise NotFound("alerts")
    return authority


def _rule(request: HttpRequest, rule_id: int) -> AlertRuleOut:
    found = queries.list_rules(visible=who(request).visible, now=timezone.now())
    row = next((each for each in found if each.id == rule_id), None)
    if row is None:
        raise NotFound("rule")
    return AlertRuleOut.from_orm(row)
