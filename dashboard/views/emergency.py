"""Emergency: pause starts, freeze reclaim and preemption, hold one workload, and end it again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

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
from dashboard.views.scope_names import scope_in
from scheduler.core.emergency import ControlKind
from scheduler.operations import emergency as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import emergency as queries
from scheduler.queries import emergency_words, idle_holdings
from scheduler.queries.emergency import ControlRow

#: Fields of the operation by the names that the forms have.
NAMES = {"until": "minutes", "workload_id": "workload", "kind": "scope"}
MOST_MINUTES = int(operations.MOST.total_seconds() // 60)


@login_required
@require_GET
def emergency(request: HttpRequest) -> HttpResponse:
    """Answer what is in force in the reader's scopes, what was, and the forms."""
    return _page(request)


@login_required
@require_POST
def set_control(request: HttpRequest) -> HttpResponse:
    """Put a control in force."""
    kind = request.POST.get("kind", "")
    if kind not in set(ControlKind):
        raise Http404
    scope, now = request.POST.get("scope", "cluster"), timezone.now()
    found = scope_in(scope)
    if scope != "cluster" and found is None:
        raise Http404
    level, scope_id = found or ("", None)
    order = operations.Order(
        kind=kind,
        reason=request.POST.get("reason", ""),
        until=now + timedelta(minutes=_minutes(request)),
        department_id=scope_id if level == "department" and kind == ControlKind.PAUSE else None,
        project_id=scope_id if level == "project" and kind == ControlKind.PAUSE else None,
        workload_id=optional_int(request.POST.get("workload"))
        if kind == ControlKind.HOLD
        else None,
    )
    return _do(
        request,
        lambda authority: operations.set_control(order=order, authority=authority, now=now),
        _("It is in force from now on."),
        form=kind,
    )


@login_required
@require_POST
def end_control(request: HttpRequest, control_id: int) -> HttpResponse:
    """End a control before its time."""
    return _do(
        request,
        lambda authority: operations.end_control(
            control_id=control_id, authority=authority, now=timezone.now()
        ),
        _("It has ended."),
    )


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    authority, visible, now = _governing(request), signed_in.visible_to(request), timezone.now()
    return render(
        request,
        "dashboard/emergency.html",
        {
            "rows": [
                _shown(row, authority) for row in queries.list_controls(visible=visible, now=now)
            ],
            "past": [
                {"row": row, "said": emergency_words.in_force(row)}
                for row in queries.list_controls(visible=visible, now=now, past=True)
            ],
            "scopes": _scopes(request, authority),
            "may_freeze": authority.may(Action.NODES),
            "may_hold": authority.may_anywhere(Action.POLICY),
            "asked": optional_int(request.GET.get("workload")) or "",
            "kept": kept,
        },
        status=400 if kept else 200,
    )


def _shown(row: ControlRow, authority: UserAuthority) -> dict[str, object]:
    return {
        "row": row,
        "said": emergency_words.in_force(row),
        "may_end": operations.may_control(
            kind=row.kind,
            authority=authority,
            department_id=row.department_id,
            project_id=row.project_id,
        ),
    }


def _scopes(request: HttpRequest, authority: UserAuthority) -> list[tuple[str, str]]:
    """Return where the reader may pause starts, as values and words of a form."""
    scopes = [("cluster", _("the whole cluster"))] if authority.may(Action.NODES) else []
    for unit in idle_holdings.list_rules(visible=signed_in.visible_to(request)):
        if authority.may(Action.POLICY, department_id=unit.department_id):
            word = (
                _("department {name}").format(name=unit.name)
                if unit.is_department
                else _("project {name}").format(name=unit.name)
            )
            level = "department" if unit.is_department else "project"
            scopes.append((f"{level}-{unit.id}", word))
    return scopes


def _minutes(request: HttpRequest) -> int:
    """Return for how long; what is no number of minutes is refused as an end that can't be."""
    found = optional_int(request.POST.get("minutes", "").strip())
    return found if found is not None and found <= MOST_MINUTES else 0


def _governing(request: HttpRequest) -> UserAuthority:
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.POLICY, Action.NODES):
        raise Http404
    return authority


def _do(
    request: HttpRequest, act: Callable[[UserAuthority], object], done: str, *, form: str = ""
) -> HttpResponse:
    authority = _governing(request)
    try:
        act(authority)
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
    except Refused as refused:
        if form:
            return _page(request, kept=keep_posted(request, form, refused.problems, names=NAMES))
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    else:
        messages.success(request, done)
    return redirect("emergency")
