"""The quota tree as a file: export, and import with what it would change before anything is changed."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from dashboard import problems
from dashboard.quota_downloads import answer_tree
from dashboard.quota_draft import changes_of
from dashboard.views import signed_in
from scheduler.operations.authority import Action
from scheduler.operations.quota_import import ImportPlan, apply_import, plan_import
from scheduler.operations.refused import QuotaRefused
from scheduler.queries.quota_files import FORMATS, MOST_BYTES

#: Mistakes that are shown at once.
SHOWN = 50


@login_required
@require_GET
def export(request: HttpRequest, ending: str) -> HttpResponse:
    """Answer all rows that the reader sees, of all pools, as a file that can be imported."""
    if ending not in FORMATS:
        raise Http404
    return answer_tree(visible=signed_in.visible_to(request), ending=ending, now=timezone.now())


@login_required
@require_http_methods(["GET", "POST"])
def transfer(request: HttpRequest) -> HttpResponse:
    """Answer the page; a post tries a file, and one that was seen and confirmed is carried out."""
    may_import = signed_in.authority(request).may_anywhere(
        Action.PROJECT_QUOTA, Action.DEPARTMENT_QUOTA
    )
    context: dict[str, object] = {"may_import": may_import, "ending": "csv"}
    if request.method == "GET":
        return render(request, "dashboard/quota_file.html", context)
    text, ending, said = _sent(request)
    context |= {"text": text, "ending": ending, "said": said}
    if said:
        return render(request, "dashboard/quota_file.html", context)
    plan = plan_import(
        text,
        ending=ending,
        visible=signed_in.visible_to(request),
        authority=signed_in.authority(request),
    )
    if request.POST.get("seen") == plan.digest and not plan.mistakes:
        said = _carry_out(request, plan)
        if not said:
            return redirect("quota_file")
    elif "seen" in request.POST:
        said = _("The quotas have changed since you looked. This is what the file would do now.")
    reason = request.POST.get("reason", "").strip()[:500]
    context |= {"plan": plan, "said": said, "reason": reason, **_in_words(plan)}
    return render(request, "dashboard/quota_file.html", context)


def _sent(request: HttpRequest) -> tuple[str, str, str]:
    """Return the file's text and format, and what is wrong with the file as such."""
    ending = request.POST.get("ending", "csv")
    if ending not in FORMATS:
        raise Http404
    file = request.FILES.get("file")
    if file is None:
        text = request.POST.get("text", "")
        return text, ending, "" if text.strip() else _("Choose a file, or paste its text.")
    name = (file.name or "").lower()
    if name.endswith((".yaml", ".yml", ".csv")):
        ending = "csv" if name.endswith(".csv") else "yaml"
    if (file.size or 0) > MOST_BYTES:
        return "", ending, _("The file is too large: at most 4 MB and 50,000 rows.")
    try:
        return file.read().decode("utf-8-sig"), ending, ""
    except UnicodeDecodeError:
        return "", ending, _("The file is not UTF-8 text. Save it as UTF-8 and try again.")


def _carry_out(request: HttpRequest, plan: ImportPlan) -> str:
    """Carry the plan out; return why it was refused, or nothing."""
    try:
        count = apply_import(
            plan,
            authority=signed_in.authority(request),
            now=timezone.now(),
            reason=request.POST.get("reason", "").strip()[:500],
        )
    except QuotaRefused as refused:
        return " ".join(problems.in_words(each) for each in refused.problems)
    saved = ngettext("{n} row is saved.", "{n} rows are saved.", count)
    messages.success(request, saved.format(n=count))
    return ""


def _in_words(plan: ImportPlan) -> dict[str, object]:
    return {
        "mistakes": [problems.mistake_in_words(each) for each in plan.mistakes[:SHOWN]],
        "more_mistakes": max(0, len(plan.mistakes) - SHOWN),
        "warnings": [problems.mistake_in_words(each) for each in plan.warnings],
        "rows": [
            {
                "line": each.line,
                "pool": each.pool,
                "row": each.before,
                "cells": changes_of(each.before.quota, each.after.quota),
            }
            for each in plan.changed
        ],
    }
