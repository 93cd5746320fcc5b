"""Alerts: what is raised, what was, the rules behind them; acknowledge and silence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from access.scopes import UserAuthority
from dashboard import problems
from dashboard.forms.kept import Kept, keep_posted
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.alerts import Metric
from scheduler.operations import alerts as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import alert_words, idle_holdings, pool_state
from scheduler.queries import alerts as queries
from scheduler.queries.alerts import RuleRow

#: How a threshold is written on the page: its unit, and how many of the stored unit that is.
UNITS: dict[Metric, tuple[str, int]] = {
    Metric.UNMET_GUARANTEE_MGPU: ("GPU", 1000),
    Metric.IDLE_SHARE_PERMILLE: ("%", 10),
    Metric.LONGEST_WAIT_S: ("s", 1),
    Metric.LIMIT_USED_PERMILLE: ("%", 10),
    Metric.COLD_START_MS: ("s", 1000),
    Metric.LATENCY_MS: ("s", 1000),
    Metric.BUDGET_SPENT_PERMILLE: ("%", 10),
    Metric.UNWATCHED_WORKLOADS: ("", 1),
}
SILENCES_S = (3600, 8 * 3600, 24 * 3600, 7 * 24 * 3600)


@login_required
@require_GET
def alerts(request: HttpRequest) -> HttpResponse:
    """Answer alerts and rules of the reader's scopes."""
    return _page(request)


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    authority = _governing(request)
    visible, now = signed_in.visible_to(request), timezone.now()
    rules = queries.list_rules(visible=visible, now=now)
    found = queries.list_alerts(visible=visible, now=now)
    return render(
        request,
        "dashboard/alerts.html",
        {
            "open_alerts": [
                _with_right(row.rule, authority, row) for row in found if not row.cleared_at
            ],
            "history": [row for row in found if row.cleared_at],
            "rules": [_with_right(row, authority, row) for row in rules],
            "metrics": [
                (metric.value, alert_words.metric_name(metric), unit)
                for metric, (unit, _size) in UNITS.items()
            ],
            "scopes": _scopes(request, authority),
            "pools": pool_state.list_pools(visible=visible),
            "silences": SILENCES_S,
            "kept": kept,
        },
        status=400 if kept else 200,
    )


@login_required
@require_POST
def save_rule(request: HttpRequest) -> HttpResponse:
    """Make a rule or set one anew."""
    scope, _dash, number = request.POST.get("scope", "").partition("-")
    scope_id = optional_int(number)
    if scope not in ("cluster", "department", "project") or (scope != "cluster" and not scope_id):
        raise Http404
    metric = request.POST.get("metric", "")
    values = operations.RuleValues(
        name=request.POST.get("name", ""),
        metric=metric,
        threshold=_threshold(metric, request.POST.get("threshold", "")),
        for_s=_number(request.POST.get("for_s")),
        department_id=scope_id if scope == "department" else None,
        project_id=scope_id if scope == "project" else None,
        pool_id=optional_int(request.POST.get("pool")),
        enabled=request.POST.get("enabled") == "on",
    )
    return _do(
        request,
        lambda authority, now: operations.save_rule(
            rule_id=optional_int(request.POST.get("rule")),
            values=values,
            authority=authority,
            now=now,
        ),
        _("The rule is saved."),
        form=f"rule-{optional_int(request.POST.get('rule')) or 'new'}",
    )


@login_required
@require_POST
def delete_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Take a rule away."""
    return _do(
        request,
        lambda authority, now: operations.delete_rule(
            rule_id=rule_id, authority=authority, now=now
        ),
        _("The rule is taken away."),
    )


@login_required
@require_POST
def silence(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Tell nobody of a rule's alerts for a time, or tell again."""
    seconds = optional_int(request.POST.get("for_s"))
    return _do(
        request,
        lambda authority, now: operations.silence_rule(
            rule_id=rule_id,
            until=now + timedelta(seconds=seconds) if seconds else None,
            authority=authority,
            now=now,
        ),
        _("Nobody is told of it for that time.") if seconds else _("It is told again."),
    )


@login_required
@require_POST
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Say that one looks after an alert."""
    return _do(
        request,
        lambda authority, now: operations.acknowledge(
            alert_id=alert_id,
            comment=request.POST.get("comment", ""),
            authority=authority,
            now=now,
        ),
        _("It is written down that you look after it."),
    )


def _do(
    request: HttpRequest, act: Callable[..., object], said: str, *, form: str = ""
) -> HttpResponse:
    try:
        act(signed_in.authority(request), timezone.now())
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    except Refused as refused:
        if form:
            return _page(request, kept=keep_posted(request, form, refused.problems))
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    else:
        messages.success(request, said)
    return redirect("alerts")


def _governing(request: HttpRequest) -> UserAuthority:
    """Return the caller's authority; who governs nothing has no such page."""
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.POLICY, Action.NODES):
        raise Http404
    return authority


def _with_right(rule: RuleRow, authority: UserAuthority, row: object) -> dict[str, object]:
    may = (
        authority.may(Action.NODES)
        if rule.is_cluster
        else authority.may(
            Action.POLICY, project_id=rule.project_id, department_id=rule.of_department_id
        )
    )
    unit, size = UNITS[Metric(rule.metric)]
    shown = Decimal(rule.threshold) / size
    return {"row": row, "may": may, "unit": unit, "threshold": f"{shown.normalize():f}"}


def _scopes(request: HttpRequest, authority: UserAuthority) -> list[tuple[str, str, str]]:
    """Return where the caller may set rules: value, kind, name."""
    found = [("cluster", "cluster", "")] if authority.may(Action.NODES) else []
    for unit in idle_holdings.list_rules(visible=signed_in.visible_to(request)):
        project_id = None if unit.is_department else unit.id
        if authority.may(Action.POLICY, project_id=project_id, department_id=unit.department_id):
            kind = "department" if unit.is_department else "project"
            found.append((f"{kind}-{unit.id}", kind, unit.name))
    return found


def _threshold(metric: str, text: str) -> int:
    """Return a threshold in the stored unit; -1, which is refused, for what is no number."""
    if metric not in set(Metric):
        return 0
    try:
        value = Decimal(text.strip()) * UNITS[Metric(metric)][1]
    except InvalidOperation:
        return -1
    return int(value) if value.is_finite() and value == value.to_integral_value() else -1


def _number(text: str | None) -> int:
    found = optional_int(text)
    return -1 if found is None else found
