"""Workloads: the table, one in full, submit, stop, start and delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import output, problems, words
from dashboard.forms.priority import PriorityForm
from dashboard.forms.workload import WorkloadForm
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import END_PHASES, Kind, Phase
from scheduler.operations import services, submissions
from scheduler.operations import workloads as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused, SubmitRefused
from scheduler.queries import pool_state
from scheduler.queries import workloads as queries
from scheduler.queries.workloads import ProjectChoice, WorkloadDetail


class Submitted(Protocol):
    """What was handed in."""

    pk: int
    name: str


@login_required
@require_GET
def workloads(request: HttpRequest) -> HttpResponse:
    """Answer the table; every filter stands in the address."""
    visible = signed_in.visible_to(request)
    phase = request.GET.get("state", "")
    kind = request.GET.get("type", "")
    wanted = queries.WorkloadFilter(
        project_id=optional_int(request.GET.get("project")),
        phase=phase if phase in set(Phase) else "",
        kind=kind if kind in set(Kind) else "",
        text=request.GET.get("q", "").strip()[:100],
        after_id=optional_int(request.GET.get("after")),
    )
    page = queries.list_workloads(
        visible=visible, pool_name=request.GET.get("pool", ""), wanted=wanted
    )
    return render(
        request,
        "dashboard/workloads.html",
        {
            "page": page,
            "wanted": wanted,
            "projects": queries.list_projects(visible=visible),
            "phases": [(p.value, words.phase_name(p)) for p in Phase],
            "kinds": [(k.value, words.kind_name(k)) for k in Kind],
            "may_submit": bool(_open_projects(request)),
        },
    )


@login_required
@require_GET
def workload(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Answer one workload: why it waits, what happened, where it runs, what it printed."""
    return _page(request, _find(request, workload_id))


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form, or submit what it holds. A warning has to be confirmed."""
    projects = _open_projects(request)
    pools = pool_state.list_pools(visible=signed_in.visible_to(request))
    if not projects or not pools:
        return _nothing_to_submit_to(request)
    if request.method == "GET":
        chosen = optional_int(request.GET.get("project"))
        form = WorkloadForm(
            projects=projects,
            offered=_offered_kinds(request, projects),
            initial={"project": chosen or projects[0].id},
        )
        return _form_page(request, form)
    form = WorkloadForm(request.POST, projects=projects)
    if not form.is_valid():
        for problem in submissions.find_taken_name(
            project_id=form.cleaned_data.get("project"), name=form.cleaned_data.get("name")
        ):
            form.add_error(problem.field, problems.in_words(problem))
        return _form_page(request, form)
    named = [pool for pool in pools if pool.name == request.GET.get("pool", "")]
    pool = (named or list(pools))[0]
    warnings = submissions.find_warnings(
        submission=form.submission, project_id=form.cleaned_data["project"], pool_id=pool.id
    )
    if warnings and request.POST.get("confirmed") != "yes":
        return _form_page(request, form, warnings=[problems.in_words(w) for w in warnings])
    return _submit(request, form, pool_id=pool.id)


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
    return render(
        request,
        template,
        {
            "detail": detail,
            "ended": Phase(detail.row.phase) in END_PHASES,
            "may_act": _may_act(request, detail),
            "tail": output.read_tail(detail.replicas[0]) if detail.replicas else None,
            "priority_form": form or PriorityForm(detail=detail),
            "priority_warnings": warnings or [],
        },
    )


def _find(request: HttpRequest, workload_id: int) -> WorkloadDetail:
    detail = queries.read_workload(visible=signed_in.visible_to(request), workload_id=workload_id)
    if detail is None:
        raise Http404
    return detail


def _open_projects(request: HttpRequest) -> tuple[ProjectChoice, ...]:
    """Return the projects into which the caller may submit something."""
    authority = signed_in.authority(request)
    return tuple(
        project
        for project in queries.list_projects(visible=signed_in.visible_to(request))
        if any(
            authority.may(action, project_id=project.id, department_id=project.department_id)
            for action in (Action.WORK, Action.SERVE)
        )
    )


def _may_act(request: HttpRequest, detail: WorkloadDetail) -> bool:
    action = Action.SERVE if detail.row.kind == Kind.INFERENCE else Action.WORK
    return signed_in.authority(request).may(
        action, project_id=detail.project_id, department_id=detail.department_id
    )


def _submit(request: HttpRequest, form: WorkloadForm, *, pool_id: int) -> HttpResponse:
    try:
        made = _hand_in(request, form, pool_id=pool_id)
    except SubmitRefused as refused:
        for problem in refused.problems:
            field = problem.field if problem.field in form.fields else None
            form.add_error(field, problems.in_words(problem))
        return _form_page(request, form)
    except NotPermitted as refused:
        form.add_error(None, problems.refusal(refused))
        # A fragment is only swapped in where the answer is a success.
        return _form_page(request, form, status=200 if getattr(request, "htmx", False) else 403)
    address = reverse("workload", args=[made.pk])
    said = _("{name} is submitted.").format(name=made.name)
    if _in_dialog(request):
        # The page under the dialog stays, so that one sees there what becomes of it.
        happened = {"submitted": {"said": said, "name": made.name, "address": address}}
        return HttpResponse(headers={"HX-Trigger": json.dumps(happened), "HX-Reswap": "none"})
    messages.success(request, said)
    if getattr(request, "htmx", False):
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


def _hand_in(request: HttpRequest, form: WorkloadForm, *, pool_id: int) -> Submitted:
    """Hand in what the form holds; a service with how it scales."""
    project_id, authority = form.cleaned_data["project"], signed_in.authority(request)
    if form.submission.kind is Kind.INFERENCE:
        return services.submit_service(
            project_id=project_id,
            pool_id=pool_id,
            submission=form.submission,
            scaling=form.scaling,
            authority=authority,
            now=timezone.now(),
        )
    return operations.submit_workload(
        project_id=project_id,
        pool_id=pool_id,
        submission=form.submission,
        authority=authority,
        now=timezone.now(),
    )


def _offered_kinds(request: HttpRequest, projects: tuple[ProjectChoice, ...]) -> frozenset[Kind]:
    """Return the kinds that the caller may submit somewhere; the form offers no others."""
    authority = signed_in.authority(request)

    def may(action: Action) -> bool:
        return any(
            authority.may(action, project_id=project.id, department_id=project.department_id)
            for project in projects
        )

    offered = set(Kind) - {Kind.INFERENCE} if may(Action.WORK) else set()
    return frozenset(offered | {Kind.INFERENCE} if may(Action.SERVE) else offered)


def _form_page(
    request: HttpRequest,
    form: WorkloadForm,
    *,
    warnings: list[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    for name in form.errors:
        if name in form.fields:
            form.fields[name].widget.attrs["aria-invalid"] = "true"
    template = "dashboard/workload_new.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_workload_form.html"
    context = {"form": form, "warnings": warnings or [], "in_dialog": _in_dialog(request)}
    return render(request, template, context, status=status)


def _in_dialog(request: HttpRequest) -> bool:
    """Test whether the form lies over another page: fetched into its dialog, or sent from there."""
    if request.method == "GET":
        return bool(getattr(request, "htmx", False))
    return request.POST.get("dialog") == "yes"


def _nothing_to_submit_to(request: HttpRequest) -> HttpResponse:
    """Answer what is missing for a submission, and the next step."""
    visible = signed_in.visible_to(request)
    missing = "role" if queries.list_projects(visible=visible) else "project"
    if not pool_state.list_pools(visible=visible):
        missing = "pool"
    in_dialog = bool(getattr(request, "htmx", False))
    template = "dashboard/workload_new.html"
    if in_dialog:
        template = "dashboard/partials/_workload_none.html"
    may_add = signed_in.authority(request).may(Action.NODES)
    context = {"missing": missing, "may_add": may_add, "in_dialog": in_dialog}
    status = 200 if request.method == "GET" or in_dialog else 403
    return render(request, template, context, status=status)


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
        messages.error(request, str(refused))
        return redirect("workload", workload_id)
    messages.success(request, said.format(name=name))
    return redirect("workloads") if to == "workloads" else redirect("workload", workload_id)
