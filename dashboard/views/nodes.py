"""Nodes and their devices."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.views import signed_in
from scheduler.queries import devices as device_queries
from scheduler.queries import nodes as node_queries


@login_required
@require_GET
def nodes(request: HttpRequest) -> HttpResponse:
    """Answer which device is free, sick or cordoned, and what is on it."""
    rows = node_queries.list_nodes(
        visible=signed_in.visible_to(request), pool_name=request.GET.get("pool", "")
    )
    return render(request, "dashboard/nodes.html", {"rows": rows})


@login_required
@require_GET
def device(request: HttpRequest, node_name: str, index: int) -> HttpResponse:
    """Answer one GPU: its processes, with the memory that each was granted and uses."""
    found = device_queries.read_device(
        visible=signed_in.visible_to(request), node_name=node_name, index=index
    )
    if found is None:
        raise Http404
    template = "dashboard/device.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_device_body.html"
    return render(request, template, {"device": found})
