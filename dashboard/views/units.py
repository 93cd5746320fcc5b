"""The page of one department or project."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.views import signed_in
from reports.money import budget_lines
from reports.unit_page import make_unit_page
from scheduler.core.vocabulary import Level
from scheduler.queries import former_names, units, usage_names


@login_required
@require_GET
def project(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer a project's page."""
    return _page(request, Level.PROJECT, slug)


@login_required
@require_GET
def department(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer a department's page."""
    return _page(request, Level.DEPARTMENT, slug)


def _page(request: HttpRequest, level: Level, slug: str) -> HttpResponse:
    visible, now = signed_in.visible_to(request), timezone.now()
    unit = units.find_unit(visible=visible, level=level, slug=slug)
    if unit is None:
        raise Http404
    page = make_unit_page(
        visible=visible, unit=unit, zone=timezone.get_current_timezone_name(), now=now
    )
    budget = next(
        (
            line
            for line in budget_lines(visible=visible, now=now)
            if line.unit.level is level and line.unit.unit_id == unit.id and line.unit.monthly
        ),
        None,
    )
    return render(
        request,
        "reports/unit.html",
        {
            "unit": unit,
            "former": [
                name
                for name, _until in former_names.read_former_names().get((level, unit.id), ())
                if name != unit.name
            ],
            "page": page,
            "budget": budget,
            "currency": usage_names.read_cluster_facts().currency,
        },
    )
