"""One workload: in full, stop, start, its priority and delete."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard import output, problems, use_chart
from dashboard.downloads import streamed
from dashboard.forms.priority import PriorityForm
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import END_PHASES, Kind, Phase
from scheduler.engines.base import EngineError
from scheduler.operations import submissions
from scheduler.operations import workloads as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused, SubmitRefused
from scheduler.queries import assets as asset_queries
from scheduler.queries import (
    estimates,
    outputs,
    progress,
    remedies,
    use_over_time,
    wait_parts,
    workspaces,
)
from scheduler.queries import workloads as queries
from scheduler.queries.workloads import WorkloadDetail


@login_required
@require_GET
def workload(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Answer one workload: why it waits, what happened, where it runs, what it printed."""
    return _page(request, _find(request, workload_id))


@login_required
@require_GET
def ways(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Answer what would make a waiting workload run, as a part of its page."""
    found = remedies.list_remedies(
        visible=signed_in.visible_to(request), workload_id=workload_id, now=timezone.now()
    )
    if found is None:
        raise Http404
    estimate = estimates.read_estimate(
        visible=signed_in.visible_to(request), workload_id=workload_id, now=timezone.now()
    )
    context = {"ways": found, "estimate": estimate}
    return render(request, "dashboard/partials/_workload_ways.html", context)


@login_required
@require_POST
def stop(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Stop a workload: SIGTERM, its grace, SIGKILL."""
    return _act(request, workload_id, operations.stop_workload, said=_("{name} is being stopped."))


@login_required
@require_POST
def start(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Let an ended workload wait for its turn again."""
    return _act(request, workload_id, operations.start_workload, said=_("{name} waits again."))


@login_required
@require_POST
def delete(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Delete a workload; a running one is stopped first."""
    return _act(
        request,
        workload_id,
        operations.delete_workload,
        said=_("{name} is deleted. Its hours stay in the ledger."),
        to="workloads",
    )


@login_required
@require_POST
def change_priority(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Change priority and whether it may be interrupted. A warning has to be confirmed."""
    detail = _find(request, workload_id)
    form = PriorityForm(request.POST, detail=detail)
    if not form.is_valid():
        return _page(request, detail, form=form)
    priority, explicit = form.cleaned_data["priority"], form.explicit
    warnings = submissions.find_priority_warnings(
        workload_id=workload_id, priority=priority, preemptible=explicit
    )
    if warnings and request.POST.get("confirmed") != "yes" and _may_act(request, detail):
        said = [problems.in_words(warning) for warning in warnings]
        return _page(request, detail, form=form, warnings=said)
    try:
        operations.change_priority(
            workload_id=workload_id,
            priority=priority,
            preemptible=explicit,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
        return redirect("workload", workload_id)
    except SubmitRefused as refused:
        for problem in refused.problems:
            form.add_error(problem.field, problems.in_words(problem))
        return _page(request, detail, form=form)
    messages.success(request, _("The priority of {name} is changed.").format(name=detail.row.name))
    return redirect("workload", workload_id)


@login_required
@require_GET
def log_file(request: HttpRequest, workload_id: int) -> HttpResponseBase:
    """Answer all that is kept of one replica's output, as a file."""
    found = outputs.list_outputs(visible=signed_in.visible_to(request), workload_id=workload_id)
    of = outputs.find_output(
        found or (),
        ordinal=optional_int(request.GET.get("replica")) or 0,
        attempt=optional_int(request.GET.get("attempt")),
    )
    if of is None:
        raise Http404
    name = f"workload-{workload_id}-run-{of.attempt}-replica-{of.ordinal}.log"
    try:
        pieces = output.read_all(of)
    except EngineError as error:
        messages.error(request, _("The output can't be read now: {why}").format(why=error))
        return redirect("workload", workload_id)
    return streamed(pieces, name, content_type="text/plain; charset=utf-8")


def _page(
    request: HttpRequest,
    detail: WorkloadDetail,
    *,
    form: PriorityForm | None = None,
    warnings: list[str] | None = None,
) -> HttpResponse:
    """Answer a workload's page; with ``form`` the dialog that was not accepted is open on it."""
    template = "dashboard/workload.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_workload_body.html"
    visible, of, now = signed_in.visible_to(request), detail.row.id, timezone.now()
    use = use_over_time.read_use(visible=visible, workload_id=of, now=now)
    return render(
        request,
        template,
        {
            "detail": detail,
            "waited": wait_parts.read_waited(visible=visible, workload_id=of, now=now),
            "use": use,
            "use_chart": None if use is None else use_chart.draw(use),
            "ended": Phase(detail.row.phase) in END_PHASES,
            "may_act": _may_act(request, detail),
            "tail": _tail(request, detail),
            "outputs": outputs.list_outputs(visible=visible, workload_id=of),
            "page": _page_of(request, detail),
            "last_used": (
                workspaces.last_used(workload_id=of) if detail.row.kind == Kind.WORKSPACE else None
            ),
            "several": len(detail.replicas) > 1,
            "progress": progress.read_progress(visible=visible, workload_id=of),
            "mounted": asset_queries.list_mounted(visible=visible, workload_id=of),
            "priority_form": form or PriorityForm(detail=detail),
            "priority_warnings": warnings or [],
        },
    )


def _page_of(request: HttpRequest, detail: WorkloadDetail) -> workspaces.Workspace | None:
    """Return the page of a workspace that runs and listens."""
    if detail.row.kind != Kind.WORKSPACE:
        return None
    return workspaces.find_workspace(
        visible=signed_in.visible_to(request), workload_id=detail.row.id
    )


def _tail(request: HttpRequest, detail: WorkloadDetail) -> output.Tail | None:
    """Return the last lines for a page that is opened; the page itself follows them from there."""
    if getattr(request, "htmx", False) or not detail.replicas:
        return None
    return output.read_tail(detail.replicas[0])


def _find(request: HttpRequest, workload_id: int) -> WorkloadDetail:
    detail = queries.read_workload(visible=signed_in.visible_to(request), workload_id=workload_id)
    if detail is None:
        raise Http404
    return detail


def _may_act(request: HttpRequest, detail: WorkloadDetail) -> bool:
    action = Action.SERVE if detail.row.kind == Kind.INFERENCE else Action.WORK
    return signed_in.authority(request).may(
        action, project_id=detail.project_id, department_id=detail.department_id
    )


def _act(
    request: HttpRequest,
    workload_id: int,
    operation: Callable[..., object],
    *,
    said: str,
    to: str = "workload",
) -> HttpResponse:
    name = _find(request, workload_id).row.name
    try:
        operation(
            workload_id=workload_id,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
        return redirect("workload", workload_id)
    except Refused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
        return redirect("workload", workload_id)
    messages.success(request, said.format(name=name))
    return redirect("workloads") if to == "workloads" else redirect("workload", workload_id)
