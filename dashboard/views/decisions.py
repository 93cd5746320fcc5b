"""The log of decisions, and one decision explained."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.formats import date_format
from django.views.decorators.http import require_GET

from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.queries import decision_steps, decision_words, history, workloads

#: Newer decisions are counted up to here.
MOST_NEWER = 99


@login_required
@require_GET
def decisions(request: HttpRequest) -> HttpResponse:
    """Answer what was decided, the newest first."""
    visible = signed_in.visible_to(request)
    wanted = _wanted(request)
    rows = history.list_decisions(visible=visible, wanted=wanted)
    return render(
        request,
        "dashboard/decisions.html",
        {
            "rows": rows,
            "wanted": wanted,
            "next_before": rows[-1].id if len(rows) == wanted.limit else None,
            "verbs": [(name, decision_words.verb_name(name)) for name in decision_words.VERB_TONES],
            "projects": workloads.list_projects(visible=visible),
        },
    )


@login_required
@require_GET
def newer(request: HttpRequest) -> JsonResponse:
    """Answer how many decisions of the same filters came after one; ``more`` where not all were counted."""
    found = history.count_decisions_after(
        visible=signed_in.visible_to(request),
        wanted=_wanted(request),
        after_id=optional_int(request.GET.get("after")) or 0,
        most=MOST_NEWER + 1,
    )
    return JsonResponse({"newer": min(found, MOST_NEWER), "more": found > MOST_NEWER})


@login_required
@require_GET
def decision(request: HttpRequest, decision_id: int) -> HttpResponse:
    """Answer one decision with the checks that it rests on."""
    row = history.read_decision(visible=signed_in.visible_to(request), decision_id=decision_id)
    if row is None:
        raise Http404
    at = date_format(timezone.localtime(row.at), "Y-m-d H:i:s")
    return render(
        request,
        "dashboard/decision.html",
        {
            "row": row,
            "steps": decision_steps.steps_of(row),
            "as_text": decision_steps.as_text(row, at=at),
            "on_map": row.verb in decision_steps.ON_MAP,
        },
    )


def _wanted(request: HttpRequest) -> history.DecisionFilter:
    verb = request.GET.get("verb", "")
    return history.DecisionFilter(
        verb=verb if verb in decision_words.VERB_TONES else "",
        project_id=optional_int(request.GET.get("project")),
        before_id=optional_int(request.GET.get("before")),
    )
