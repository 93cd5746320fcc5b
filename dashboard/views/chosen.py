"""Several workloads at once: what stopping or starting them means, and doing it, each by itself."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from dashboard import problems
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import END_PHASES, Kind, Phase
from scheduler.operations import workloads as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import workloads as queries
from scheduler.queries.workloads import WorkloadRow

STOP, START = "stop", "start"
OPERATIONS: dict[str, Callable[..., object]] = {
    STOP: operations.stop_workload,
    START: operations.start_workload,
}


@login_required
@require_http_methods(["GET", "POST"])
def chosen(request: HttpRequest) -> HttpResponse:
    """Show what would become of each chosen workload; a POST does it."""
    asked = request.GET if request.method == "GET" else request.POST
    do = START if asked.get("do") == START else STOP
    rows = _rows(request, asked)
    if request.method == "POST":
        return _carry_out(request, do, rows)
    template = "dashboard/workloads_chosen.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_workloads_chosen.html"
    apart = [(row, _why_not(request, row, do)) for row in rows]
    context = {
        "do": do,
        "rows": [row for row, why_not in apart if not why_not],
        "left_out": [(row, why_not) for row, why_not in apart if why_not],
        "back": asked.get("back", ""),
    }
    return render(request, template, context)


def _rows(request: HttpRequest, asked: QueryDict) -> tuple[WorkloadRow, ...]:
    """Return the chosen workloads that the caller may see; others are as if not chosen."""
    ids = [number for text in asked.getlist("id") if (number := optional_int(text)) is not None]
    if not ids:
        return ()
    wanted = queries.WorkloadFilter(ids=tuple(ids[: queries.PAGE_SIZE]))
    return queries.list_workloads(visible=signed_in.visible_to(request), wanted=wanted).rows


def _why_not(request: HttpRequest, row: WorkloadRow, do: str) -> str:
    action = Action.SERVE if row.kind == Kind.INFERENCE else Action.WORK
    may = signed_in.authority(request).may(
        action, project_id=row.project_id, department_id=row.department_id
    )
    if not may:
        return _("view only")
    ended = Phase(row.phase) in END_PHASES
    if do == STOP:
        return _("has ended already") if ended else ""
    return "" if ended else _("has not ended")


def _carry_out(request: HttpRequest, do: str, rows: tuple[WorkloadRow, ...]) -> HttpResponse:
    done = 0
    forbidden: list[str] = []
    for row in rows:
        try:
            OPERATIONS[do](
                workload_id=row.id, authority=signed_in.authority(request), now=timezone.now()
            )
        except NotFound:
            messages.error(request, _("{name} is gone.").format(name=row.name))
        except NotPermitted as refused:
            forbidden.append(f"{row.name}: {problems.refusal(refused)}")
        except Refused as refused:
            for problem in refused.problems:
                messages.error(request, problems.in_words(problem))
        else:
            done += 1
    if forbidden and not done:
        return render(request, "403.html", {"said": " ".join(forbidden)}, status=403)
    for said in forbidden:
        messages.error(request, said)
    if done:
        messages.success(request, _said(do, done))
    back = QueryDict(request.POST.get("back", "")).urlencode()
    return redirect(f"{reverse('workloads')}?{back}" if back else reverse("workloads"))


def _said(do: str, done: int) -> str:
    if do == STOP:
        template = ngettext(
            "{n} workload is being stopped.", "{n} workloads are being stopped.", done
        )
    else:
        template = ngettext("{n} workload waits again.", "{n} workloads wait again.", done)
    return template.format(n=done)
