"""Inference: services and how they follow their load, a playground, gateway keys and usage."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import problems
from dashboard.forms.service import KeyForm, ScalingForm
from dashboard.views import signed_in
from scheduler.operations import gateway_keys, services
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import services as queries
from scheduler.queries import workloads as workload_queries
from scheduler.queries.protection import read_protection


@login_required
@require_GET
def inference(request: HttpRequest) -> HttpResponse:
    """Answer the list: running against wanted, load against target, what a cold start costs."""
    rows = queries.list_services(visible=signed_in.visible_to(request))
    template = "dashboard/inference.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_inference_rows.html"
    return render(request, template, {"rows": rows})


@login_required
@require_http_methods(["GET", "POST"])
def service(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Answer one service; a post changes how it scales."""
    detail = _find(request, workload_id)
    may_act = signed_in.authority(request).may(
        Action.SERVE, project_id=detail.project_id, department_id=detail.department_id
    )
    if request.method == "POST":
        form = ScalingForm(request.POST)
        if form.is_valid() and _change(request, form, detail):
            return redirect("service", workload_id)
    else:
        form = ScalingForm(initial=ScalingForm.initial_of(detail))
    template, protection = "dashboard/service.html", None
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_service_body.html"
    else:
        visible = signed_in.visible_to(request)
        protection = read_protection(visible=visible, workload_id=workload_id)
    context = {
        "detail": detail,
        "form": form,
        "may_act": may_act,
        "series": _series(detail),
        "protection": protection,
    }
    return render(request, template, context)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def keys(request: HttpRequest) -> HttpResponse:
    """Answer gateway keys with their usage; a post makes one, whose secret is shown this once."""
    visible, now = signed_in.visible_to(request), timezone.now()
    scopes = _scopes(request)
    form = KeyForm(request.POST or None, scopes=scopes)
    made = None
    if request.method == "POST" and form.is_valid():
        made = _make(request, form)
        if made is not None:
            form = KeyForm(scopes=scopes)
    return render(
        request,
        "dashboard/gateway_keys.html",
        {
            "rows": queries.list_keys(visible=visible, now=now),
            "usage": queries.list_usage(visible=visible, now=now),
            "form": form if scopes else None,
            "made": made,
            "address": request.build_absolute_uri("/v1"),
        },
    )


@login_required
@require_POST
def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """End a key for good."""
    try:
        key = gateway_keys.revoke_key(
            key_id=key_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, _("{name} is revoked.").format(name=key.name))
    return redirect("gateway_keys")


def _find(request: HttpRequest, workload_id: int) -> queries.ServiceDetail:
    detail = queries.read_service(
        visible=signed_in.visible_to(request), workload_id=workload_id, now=timezone.now()
    )
    if detail is None:
        raise Http404
    return detail


def _change(request: HttpRequest, form: ScalingForm, detail: queries.ServiceDetail) -> bool:
    try:
        services.change_scaling(
            workload_id=detail.row.id,
            min_replicas=form.cleaned_data["min_replicas"],
            max_replicas=form.cleaned_data["max_replicas"],
            scaling=form.scaling(detail),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        form.add_error(None, str(refused))
        return False
    except Refused as refused:
        for problem in refused.problems:
            field = problem.field if problem.field in form.fields else None
            form.add_error(field, problems.in_words(problem))
        return False
    messages.success(request, _("{name} scales as you said.").format(name=detail.row.name))
    return True


def _make(request: HttpRequest, form: KeyForm) -> gateway_keys.MadeKey | None:
    project_id, department_id = form.scope_ids()
    now = timezone.now()
    try:
        return gateway_keys.create_key(
            project_id=project_id,
            department_id=department_id,
            terms=form.terms(now),
            authority=signed_in.authority(request),
            now=now,
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        form.add_error(None, str(refused))
    except Refused as refused:
        for problem in refused.problems:
            field = problem.field if problem.field in form.fields else None
            form.add_error(field, problems.in_words(problem))
    return None


def _scopes(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the projects for which the caller may make keys."""
    authority = signed_in.authority(request)
    return [
        (f"project-{project.id}", project.name)
        for project in workload_queries.list_projects(visible=signed_in.visible_to(request))
        if authority.may(Action.SERVE, project_id=project.id, department_id=project.department_id)
    ]


def _series(detail: queries.ServiceDetail) -> dict[str, list[float | int | None]]:
    """Return the recorded series as columns, for the charts."""
    points = detail.points
    return {
        "at": [int(point.at.timestamp() * 1000) for point in points],
        "desired": [point.desired for point in points],
        "ready": [point.ready for point in points],
        "value": [None if p.value_milli is None else p.value_milli / 1000 for p in points],
        "rate": [point.rate_milli / 1000 for point in points],
        "latency": [point.latency_ms for point in points],
        "target": [(detail.row.target_milli or 0) / 1000],
    }
