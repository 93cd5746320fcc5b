"""Idle time: which holdings can be given back, keep, and the rules that give them back."""

from __future__ import annotations

from decimal import Decimal

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from access.scopes import UserAuthority
from dashboard import problems, words
from dashboard.forms.kept import Kept, keep_at, keep_posted
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.idle import Limits, RuleKind
from scheduler.operations import idle as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import idle_holdings
from scheduler.queries.idle_holdings import IdleRow, RuleUnit
from scheduler.queries.settings import read_settings
from scheduler.queries.unwatched import list_unwatched


@login_required
@require_GET
def idle(request: HttpRequest) -> HttpResponse:
    """Answer what is idle now in the reader's scope, and the rules."""
    return _page(request)


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    visible = signed_in.visible_to(request)
    authority = signed_in.authority(request)
    now = timezone.now()
    rows = idle_holdings.list_idle(visible=visible, now=now)
    settings = read_settings()
    costs = [row.cost for row in rows if row.cost is not None]
    return render(
        request,
        "dashboard/idle.html",
        {
            "rows": [{"row": row, "may_keep": _may_keep(row, authority)} for row in rows],
            "idle_mgpu": sum(row.held_mgpu for row in rows),
            "cost": _money(sum(costs), settings.currency) if costs else None,
            "currency": settings.currency,
            "services_mgpu": sum(row.held_mgpu for row in rows if row.is_service),
            "unwatched": list_unwatched(visible=visible, now=now),
            "units": [
                {"unit": unit, "may_change": _may_change(unit, authority)}
                for unit in idle_holdings.list_rules(visible=visible)
            ],
            "kept": kept,
        },
        status=400 if kept else 200,
    )


@login_required
@require_POST
def keep(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Set a workload's idle clock back."""
    try:
        kept = operations.keep_workload(
            workload_id=workload_id,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
    except Refused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    else:
        messages.success(
            request, _("{name} is kept: its idle clock begins anew.").format(name=kept.name)
        )
    return redirect("idle")


@login_required
@require_POST
def set_rule(request: HttpRequest) -> HttpResponse:
    """Set the rule for one kind of work in a department or a project."""
    level, _dash, number = request.POST.get("unit", "").partition("-")
    unit_id = optional_int(number)
    if level not in ("department", "project") or unit_id is None:
        raise Http404
    kind = request.POST.get("kind", "")
    form = f"{level}-{unit_id}-{kind}"
    try:
        limits = Limits(
            idle_limit_s=_seconds(request, "idle_limit_s"),
            runtime_limit_s=_seconds(request, "runtime_limit_s"),
            owner_may_keep=request.POST.get("owner_may_keep") == "on",
        )
        operations.set_policy(
            place=operations.Place(**{f"{level}_id": unit_id}),
            kind=kind,
            limits=limits,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
    except ValueError as error:
        (name,) = error.args
        said = _("A limit is a whole number of seconds, or empty.")
        return _page(request, kept=keep_at(request, form, name, said))
    except Refused as refused:
        if kind in set(RuleKind):
            return _page(request, kept=keep_posted(request, form, refused.problems))
        for each in refused.problems:  # no form of the page
            messages.error(request, problems.in_words(each))
    else:
        messages.success(
            request,
            _("The rule for {kind} is saved. Work that is submitted from now on has it.").format(
                kind=words.rule_kind_name(kind)
            ),
        )
    return redirect("idle")


def _money(amount: Decimal | int, currency: str) -> str:
    """Return an amount with its currency, without decimals from 100 up."""
    return f"{currency}{amount:,.0f}" if amount >= 100 else f"{currency}{amount:.2f}"


def _seconds(request: HttpRequest, name: str) -> int | None:
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    found = optional_int(text)
    if found is None:
        raise ValueError(name)
    return found


def _may_keep(row: IdleRow, authority: UserAuthority) -> bool:
    if row.limit_s is None:
        return False
    place = {"project_id": row.project_id, "department_id": row.department_id}
    if authority.may(Action.POLICY, **place):
        return True
    is_owner = row.owner == authority.name
    return row.owner_may_keep and is_owner and authority.may(Action.WORK, **place)


def _may_change(unit: RuleUnit, authority: UserAuthority) -> bool:
    return authority.may(
        Action.POLICY,
        project_id=None if unit.is_department else unit.id,
        department_id=unit.department_id,
    )
