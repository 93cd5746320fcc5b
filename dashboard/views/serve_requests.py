"""Requests to serve: asked for, approved or declined."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from access.listing import names_who_may
from dashboard import problems
from dashboard.forms.kept import Kept, keep_posted
from dashboard.forms.workload import WorkloadForm
from dashboard.views import signed_in
from dashboard.views.submit import choices, chosen_pool
from scheduler.core.vocabulary import Kind
from scheduler.operations import serve_requests as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused, StateRefused, SubmitRefused
from scheduler.queries import pool_state
from scheduler.queries import serve_requests as queries
from scheduler.queries import workloads as workload_queries
from scheduler.queries.serve_requests import RequestRow
from scheduler.queries.workloads import ProjectChoice


@login_required
@require_GET
def requests(request: HttpRequest) -> HttpResponse:
    """Answer the requests in the reader's scope and what became of them."""
    return _page(request)


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    authority = signed_in.authority(request)

    def may_decide(row: RequestRow) -> bool:
        return row.open and authority.may(
            Action.SERVE, project_id=row.project_id, department_id=row.department_id
        )

    return render(
        request,
        "dashboard/serve_requests.html",
        {
            "rows": [
                {
                    "row": row,
                    "may_decide": may_decide(row),
                    "may_withdraw": row.open and row.requested_by == authority.name,
                }
                for row in queries.list_requests(visible=signed_in.visible_to(request))
            ],
            "may_ask": bool(_projects(request)),
            "kept": kept,
        },
        status=400 if kept else 200,
    )


@login_required
@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """Show the form of a service as a request, or send it."""
    projects = _projects(request)
    pools = pool_state.list_pools(visible=signed_in.visible_to(request))
    if not projects or not pools:
        raise Http404
    pool = chosen_pool(request, pools)
    offered = frozenset({Kind.INFERENCE})
    if request.method == "GET":
        form = WorkloadForm(
            projects=projects,
            offered=offered,
            initial={"project": projects[0].id, "pool": pool.name},
            **choices(request, pools=pools, pool_id=pool.id),
        )
        return _form(request, form)
    data = request.POST.copy()
    data["kind"] = Kind.INFERENCE.value
    form = WorkloadForm(
        data,
        projects=projects,
        offered=offered,
        **choices(request, pools=pools, pool_id=pool.id),
    )
    if not form.is_valid():
        return _form(request, form)
    project = next(each for each in projects if each.id == form.cleaned_data["project"])
    try:
        made = operations.ask_to_serve(
            project_id=project.id,
            pool_id=pool.id,
            submission=form.submission,
            scaling=form.scaling,
            comment=request.POST.get("comment", ""),
            tell=names_who_may(
                action=Action.SERVE, project_id=project.id, department_id=project.department_id
            ),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except SubmitRefused as refused:
        for problem in refused.problems:
            field = problem.field if problem.field in form.fields else None
            form.add_error(field, problems.in_words(problem))
        return _form(request, form)
    messages.success(
        request,
        _("The request for {name} is sent. You are told when it is decided.").format(
            name=made.name
        ),
    )
    return redirect("serve_requests")


@login_required
@require_POST
def approve(request: HttpRequest, request_id: int) -> HttpResponse:
    """Create the service in one's own name."""
    return _decide(request, request_id, operations.approve_request, _("{name} is approved."))


@login_required
@require_POST
def decline(request: HttpRequest, request_id: int) -> HttpResponse:
    """Decline with a reason."""
    return _decide(request, request_id, operations.decline_request, _("{name} is declined."))


@login_required
@require_POST
def withdraw(request: HttpRequest, request_id: int) -> HttpResponse:
    """Take one's own request back."""
    return _decide(
        request,
        request_id,
        operations.withdraw_request,
        _("{name} is withdrawn."),
        answered=False,
    )


def _projects(request: HttpRequest) -> tuple[ProjectChoice, ...]:
    """Return the projects in which the caller may experiment, and so may ask to serve."""
    authority = signed_in.authority(request)
    return tuple(
        project
        for project in workload_queries.list_projects(visible=signed_in.visible_to(request))
        if authority.may(Action.WORK, project_id=project.id, department_id=project.department_id)
    )


def _form(request: HttpRequest, form: WorkloadForm) -> HttpResponse:
    return render(
        request,
        "dashboard/serve_request_new.html",
        {"form": form, "comment": request.POST.get("comment", "")[:500]},
    )


def _decide(
    request: HttpRequest,
    request_id: int,
    operation: Callable[..., object],
    said: str,
    *,
    answered: bool = True,
) -> HttpResponse:
    given = {"answer": request.POST.get("answer", "")} if answered else {}
    try:
        done = operation(
            request_id=request_id,
            authority=signed_in.authority(request),
            now=timezone.now(),
            **given,
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    except StateRefused as refused:  # its form is gone
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    except Refused as refused:
        return _page(request, kept=keep_posted(request, f"answer-{request_id}", refused.problems))
    else:
        messages.success(request, said.format(name=getattr(done, "name", "")))
    return redirect("serve_requests")
