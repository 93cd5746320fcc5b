"""Nodes and their devices."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.views import signed_in
from scheduler.queries import nodes as node_queries


@login_required
@require_GET
def nodes(request: HttpRequest) -> HttpResponse:
    """Answer which device is free, sick or cordoned, and what is on it."""
    rows = node_queries.list_nodes(
        visible=signed_in.visible_to(request), pool_name=request.GET.get("pool", "")
    )
    return render(request, "dashboard/nodes.html", {"rows": rows})
