"""Proof: the verifications started from the browser, followed live, and as a dated document."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.staticfiles import finders
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import problems
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.management.verify import runner
from scheduler.management.verify.layout import LAYOUTS
from scheduler.management.verify.registry import VERIFICATIONS
from scheduler.operations import verifications as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import verifications as queries
from scheduler.queries.verifications import LineRow, RunRow

#: Languages of the document, by what stands in its address.
LANGUAGES = dict(settings.LANGUAGES)


@login_required
@require_http_methods(["GET", "POST"])
def proof(request: HttpRequest) -> HttpResponse:
    """Answer all verifications with their last results; a POST asks for a run of those chosen."""
    _admins_only(request)
    if request.method == "POST":
        return _start(request)
    runs = queries.list_runs()
    last = queries.list_last_results()
    return render(
        request,
        "dashboard/proof.html",
        {
            "open_run": next((run for run in runs if run.open), None),
            "verifications": [
                {
                    "number": number,
                    "title": _(module.TITLE),
                    "last": last.get(number, (0, None))[1],
                    "run_id": last.get(number, (0, None))[0],
                }
                for number, module in VERIFICATIONS.items()
            ],
            "runs": runs,
            "layouts": list(LAYOUTS),
        },
    )


@login_required
@require_GET
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Answer one run: live while it goes on, complete afterwards."""
    _admins_only(request)
    found = _find(run_id)
    rows = queries.list_lines(run_id=run_id)
    return render(
        request,
        "dashboard/proof_run.html",
        {
            "run": found,
            "languages": LANGUAGES.items(),
            "sections": _sections(found, rows),
            "last": max((row.id for row in rows), default=0),
            "pool": next((r.pool_name for r in found.results if r.pool_name), ""),
        },
    )


@login_required
@require_GET
def lines(request: HttpRequest, run_id: int) -> JsonResponse:
    """Answer what has come since the line ``after``, and where the run stands."""
    _admins_only(request)
    after_id = optional_int(request.GET.get("after")) or 0
    return JsonResponse(_state(_find(run_id), queries.list_lines(run_id=run_id, after_id=after_id)))


@login_required
@require_POST
def cancel(request: HttpRequest, run_id: int) -> HttpResponse:
    """Ask a run to end."""
    try:
        operations.cancel_run(
            run_id=run_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    except Refused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    else:
        messages.success(request, _("The run is being ended; its scratch pool is removed."))
    return redirect("proof_run", run_id)


@login_required
@require_GET
def document(request: HttpRequest, run_id: int) -> HttpResponse:
    """Answer a run as a document to print or keep, in the language that is asked for."""
    _admins_only(request)
    is_file = request.GET.get("save") == "1"
    asked = request.GET.get("language", "")
    language = asked if asked in LANGUAGES else (translation.get_language() or "en")
    with translation.override(language):
        found = _find(run_id)
        rows = queries.list_lines(run_id=run_id, output=False)
        answer = render(
            request,
            "dashboard/proof_document.html",
            {
                "run": found,
                "sections": _sections(found, rows),
                "made_at": timezone.now(),
                "zone": timezone.get_current_timezone_name(),
                "version": _version(),
                "style": _style() if is_file else "",
                "document_lang": "zh-Hant" if language.startswith("zh") else "en",
            },
        )
    if is_file:
        day = timezone.localtime(found.requested_at)
        name = f"tidegate-proof-{found.id}-{day:%Y-%m-%d}-{language}.html"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


@cache
def _version() -> str:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


@cache
def _style() -> str:
    """Return the document's style sheet: a file that is kept brings its own."""
    path = finders.find("css/pages/proof_document.css")
    assert isinstance(path, str)
    return Path(path).read_text(encoding="utf-8")


def _admins_only(request: HttpRequest) -> None:
    """For whom is no system admin there is no such page."""
    if not signed_in.authority(request).may(Action.NODES):
        raise Http404


def _find(run_id: int) -> RunRow:
    found = queries.read_run(run_id=run_id)
    if found is None:
        raise Http404
    return found


def _sections(found: RunRow, rows: tuple[LineRow, ...]) -> list[dict[str, Any]]:
    return [
        {"result": result, "lines": [row for row in rows if row.result_id == result.id]}
        for result in found.results
    ]


def _start(request: HttpRequest) -> HttpResponse:
    try:
        made = runner.ask_for(
            numbers=request.POST.getlist("number"),
            layout=request.POST.get("layout", "card"),
            url=request.build_absolute_uri("/").rstrip("/"),
            authority=signed_in.authority(request),
        )
    except Refused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
        return redirect("proof")
    return redirect("proof_run", made.pk)


def _state(found: RunRow, rows: tuple[LineRow, ...]) -> dict[str, Any]:
    """Return where a run stands and its next lines, as the page's script takes them."""
    return {
        "open": found.open,
        "status": found.status,
        "last": max((row.id for row in rows), default=0),
        "pool": next((r.pool_name for r in found.results if r.pool_name), ""),
        "results": render_to_string("dashboard/partials/_proof_results.html", {"run": found}),
        "lines": [
            {
                "result": result.id,
                "html": render_to_string(
                    "dashboard/partials/_proof_lines.html",
                    {"lines": [row for row in rows if row.result_id == result.id]},
                ),
            }
            for result in found.results
            if any(row.result_id == result.id for row in rows)
        ],
    }
