"""The demonstration's day: one button for admins that starts and stops it, and where it stands."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard import problems
from dashboard.views import signed_in
from scheduler.operations import demo_days as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import Refused
from scheduler.queries import demo_days as queries


def read_for(request: HttpRequest) -> queries.DayRow | None:
    """Return where the day stands for those who may start it; None for others and where it can't be."""
    if not signed_in.authority(request).may(Action.NODES):
        return None
    return queries.read_day(now=timezone.now())


@login_required
@require_GET
def day(request: HttpRequest) -> HttpResponse:
    """Answer where the day stands, to be fetched again and again."""
    _admins_only(request)
    return render(request, "dashboard/partials/_demo_day.html", {"day": read_for(request)})


@login_required
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Ask for the day."""
    _admins_only(request)
    try:
        operations.start(
            day_s=operations.USUAL_S,
            url=request.build_absolute_uri("/"),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except Refused as refused:
        _say(request, refused)
    else:
        messages.success(request, _("The day begins: its callers come within seconds."))
    return redirect("overview")


@login_required
@require_POST
def stop(request: HttpRequest) -> HttpResponse:
    """End the day."""
    _admins_only(request)
    try:
        operations.stop(authority=signed_in.authority(request), now=timezone.now())
    except Refused as refused:
        _say(request, refused)
    else:
        messages.success(request, _("The day ends: its callers hang up and its trainings go."))
    return redirect("overview")


def _admins_only(request: HttpRequest) -> None:
    if not signed_in.authority(request).may(Action.NODES):
        raise Http404


def _say(request: HttpRequest, refused: Refused) -> None:
    for each in refused.problems:
        messages.error(request, problems.in_words(each))
