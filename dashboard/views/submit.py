"""Submitting work: the form, what its slice leaves while one types, and keeping it as a template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import problems
from dashboard.forms.workload import WorkloadForm
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.operations import assets, services, submissions, workloads
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import Refused, SubmitRefused
from scheduler.queries import assets as asset_queries
from scheduler.queries import former, pool_state
from scheduler.queries import nodes as node_queries
from scheduler.queries import workloads as queries
from scheduler.queries.pool_state import PoolRow
from scheduler.queries.workloads import ProjectChoice


class Submitted(Protocol):
    """What was handed in."""

    pk: int
    name: str


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form, or submit what it holds. A warning has to be confirmed."""
    projects = open_projects(request)
    pools = pool_state.list_pools(visible=signed_in.visible_to(request))
    if not projects or not pools:
        return _nothing_to_submit_to(request)
    pool = chosen_pool(request, pools)
    if request.method == "GET":
        chosen = optional_int(request.GET.get("project"))
        begun = _from_template(request) or _like_another(request, projects)
        form = WorkloadForm(
            projects=projects,
            offered=_offered_kinds(request, projects),
            initial={"project": chosen or projects[0].id, "pool": pool.name, **begun},
            **choices(request, pools=pools, pool_id=pool.id),
        )
        return _form_page(request, form)
    form = WorkloadForm(
        request.POST, projects=projects, **choices(request, pools=pools, pool_id=pool.id)
    )
    if not form.is_valid():
        for problem in submissions.find_taken_name(
            project_id=form.cleaned_data.get("project"), name=form.cleaned_data.get("name")
        ):
            form.add_error(problem.field, problems.in_words(problem))
        return _form_page(request, form)
    if request.POST.get("keep") == "template":
        return _keep_as_template(request, form)
    warnings = submissions.find_warnings(
        submission=form.submission, project_id=form.cleaned_data["project"], pool_id=pool.id
    )
    if warnings and request.POST.get("confirmed") != "yes":
        return _form_page(request, form, warnings=[problems.in_words(w) for w in warnings])
    return _submit(request, form, pool_id=pool.id)


@login_required
@require_POST
def estimate(request: HttpRequest) -> HttpResponse:
    """Answer what the slice that is being asked for leaves, and the command that would run."""
    form, _pool = typed_so_far(request)
    return render(
        request,
        "dashboard/partials/_engine_estimate.html",
        {"estimate": form.estimate, "command": form.made_command()},
    )


def typed_so_far(request: HttpRequest) -> tuple[WorkloadForm, PoolRow]:
    """Return the form as it is typed so far, checked, and the pool that it names.

    Raises:
        Http404: there is no pool.
    """
    pools = pool_state.list_pools(visible=signed_in.visible_to(request))
    if not pools:
        raise Http404
    pool = chosen_pool(request, pools)
    form = WorkloadForm(
        request.POST,
        projects=open_projects(request),
        **choices(request, pools=pools, pool_id=pool.id),
    )
    form.is_valid()
    return form, pool


def chosen_pool(request: HttpRequest, pools: Sequence[PoolRow]) -> PoolRow:
    """Return the pool that the form or the address names, else the first."""
    wanted = request.POST.get("pool") or request.GET.get("pool", "")
    return next((pool for pool in pools if pool.name == wanted), pools[0])


def choices(request: HttpRequest, *, pools: Sequence[PoolRow], pool_id: int) -> dict[str, Any]:
    """Return what the form offers beside projects: pools, assets, and the sizes of devices."""
    return {
        "pools": [pool.name for pool in pools],
        "assets": asset_queries.list_assets(visible=signed_in.visible_to(request)),
        "devices": node_queries.list_device_sizes(pool_id=pool_id),
        "may_define": signed_in.authority(request).may_anywhere(Action.ASSETS),
    }


def _from_template(request: HttpRequest) -> dict[str, object]:
    """Return what the form holds where it begins from a template."""
    asset_id = optional_int(request.GET.get("template"))
    if asset_id is None:
        return {}
    found = asset_queries.read_asset(visible=signed_in.visible_to(request), asset_id=asset_id)
    if found is None or found.row.kind is not AssetKind.TEMPLATE:
        raise Http404
    initial = WorkloadForm.initial_of(found.row.definition)
    if found.row.project_id is not None:
        initial["project"] = found.row.project_id
    return initial


def _like_another(request: HttpRequest, projects: tuple[ProjectChoice, ...]) -> dict[str, object]:
    """Return what the form holds where it begins from what was submitted before."""
    workload_id = optional_int(request.GET.get("like"))
    if workload_id is None:
        return {}
    found = former.read_former(visible=signed_in.visible_to(request), workload_id=workload_id)
    if found is None or found.project_id not in {project.id for project in projects}:
        raise Http404
    kept = {"submission": found.submission, "scaling": found.scaling}
    return {**WorkloadForm.initial_of(kept), "project": found.project_id}


def _keep_as_template(request: HttpRequest, form: WorkloadForm) -> HttpResponse:
    """Keep what the form holds as a template of its project."""
    kept = {**asdict(form.submission), "name": ""}
    try:
        made = assets.create_asset(
            kind=AssetKind.TEMPLATE,
            draft=assets.AssetDraft(
                name=form.cleaned_data["name"],
                definition={"submission": kept, "scaling": asdict(form.scaling)},
            ),
            project_id=form.cleaned_data["project"],
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotPermitted as refused:
        form.add_error(None, problems.refusal(refused))
        return _form_page(request, form, status=200 if getattr(request, "htmx", False) else 403)
    except Refused as refused:
        _tell(form, refused)
        return _form_page(request, form)
    messages.success(request, _("{name} is kept as a template.").format(name=made.name))
    if getattr(request, "htmx", False):
        return HttpResponse(headers={"HX-Redirect": reverse("asset", args=[made.pk])})
    return redirect("asset", made.pk)


def _tell(form: WorkloadForm, refused: Refused) -> None:
    for problem in refused.problems:
        field = problem.field if problem.field in form.fields else None
        form.add_error(field, problems.in_words(problem))


def open_projects(request: HttpRequest) -> tuple[ProjectChoice, ...]:
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


def _submit(request: HttpRequest, form: WorkloadForm, *, pool_id: int) -> HttpResponse:
    try:
        made = _hand_in(request, form, pool_id=pool_id)
    except SubmitRefused as refused:
        _tell(form, refused)
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
    return workloads.submit_workload(
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
