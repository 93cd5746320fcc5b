"""Inference: services and how they follow their load, and a playground."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from dashboard import problems
from dashboard.forms.service import ScalingForm
from dashboard.views import signed_in
from scheduler.operations import services
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
        "replicas": workload_queries.list_replicas(workload_id=workload_id),
    }
    return render(request, template, context)


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
        form.add_error(None, problems.refusal(refused))
        return False
    except Refused as refused:
        for problem in refused.problems:
            field = problem.field if problem.field in form.fields else None
            form.add_error(field, problems.in_words(problem))
        return False
    messages.success(request, _("{name} scales as you said.").format(name=detail.row.name))
    return True


def _series(detail: queries.ServiceDetail) -> dict[str, list[float | int | None]]:
    """Return the recorded series as columns, for the charts."""
    points, minutes = detail.points, detail.latencies.points
    return {
        "at": [int(point.at.timestamp() * 1000) for point in points],
        "desired": [point.desired for point in points],
        "replicas": [point.replicas for point in points],
        "ready": [point.ready for point in points],
        "value": [None if p.value_milli is None else p.value_milli / 1000 for p in points],
        "rate": [point.rate_milli / 1000 for point in points],
        "minutes": [int(minute.at.timestamp() * 1000) for minute in minutes],
        "p50": [minute.whole_p50_ms for minute in minutes],
        "p95": [minute.whole_p95_ms for minute in minutes],
        "target": [(detail.row.target_milli or 0) / 1000],
    }
