"""Nodes and their devices; keeping new work away from a node, and what emptying it would do."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard import problems
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.drain import AtDeadline
from scheduler.operations import drains
from scheduler.operations import nodes as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import devices as device_queries
from scheduler.queries import drains as drain_queries
from scheduler.queries import nodes as node_queries
from scheduler.queries import what_if

#: Minutes that the operation refuses, whatever was asked for.
TOO_LONG = int(drains.LONGEST.total_seconds() // 60) + 1


@login_required
@require_GET
def nodes(request: HttpRequest) -> HttpResponse:
    """Answer which device is free, sick or cordoned, and what is on it."""
    rows = node_queries.list_nodes(
        visible=signed_in.visible_to(request), pool_name=request.GET.get("pool", "")
    )
    may_change = signed_in.authority(request).may(Action.NODES)
    emptied = drain_queries.list_drains(now=timezone.now()) if may_change else {}
    context = {
        "rows": [(row, emptied.get(row.node.id)) for row in rows],
        "may_change": may_change,
    }
    return render(request, "dashboard/nodes.html", context)


@login_required
@require_POST
def cordon(request: HttpRequest) -> HttpResponse:
    """Keep new work away from a node, or let it come again. What runs there goes on."""
    _admins_only(request)
    cordoned = request.POST.get("cordoned") == "yes"
    try:
        node = operations.set_cordoned(
            node_id=optional_int(request.POST.get("node")) or 0,
            cordoned=cordoned,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as missing:
        raise Http404 from missing
    said = _("{name} gets no new work. What runs there goes on.")
    if not cordoned:
        said = _("{name} gets new work again.")
    messages.success(request, said.format(name=node.name))
    return redirect(f"{reverse('nodes')}?pool={node.pool.name}#{node.name}")


@login_required
@require_POST
def drain(request: HttpRequest) -> HttpResponse:
    """Begin to empty a node, or let work come again."""
    _admins_only(request)
    node_id = optional_int(request.POST.get("node")) or 0
    authority, now = signed_in.authority(request), timezone.now()
    try:
        if request.POST.get("end") == "yes":
            node = drains.end_drain(node_id=node_id, authority=authority, now=now)
            said = _("{name} gets new work again.")
        else:
            minutes = _minutes(request)
            node = drains.begin_drain(
                node_id=node_id,
                deadline=now + timedelta(minutes=minutes) if minutes else None,
                at_deadline=AtDeadline.STOP if request.POST.get("stop") else AtDeadline.WAIT,
                authority=authority,
                now=now,
            ).node
            said = _("{name} is being emptied.")
    except NotFound as missing:
        raise Http404 from missing
    except Refused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
        return redirect("nodes")
    messages.success(request, said.format(name=node.name))
    return redirect(f"{reverse('nodes')}?pool={node.pool.name}#{node.name}")


@login_required
@require_GET
def emptying(request: HttpRequest) -> HttpResponse:
    """Answer who would go on elsewhere, who would wait and whom that would interrupt without a node."""
    _admins_only(request)
    now = timezone.now()
    found = what_if.preview_drain(
        visible=signed_in.visible_to(request),
        node_id=optional_int(request.GET.get("node")) or 0,
        now=now,
    )
    if found is None:
        raise Http404
    node_id = optional_int(request.GET.get("node")) or 0
    context = {"preview": found, "at": now, "node_id": node_id}
    context["draining"] = node_id in drain_queries.list_drains(now=now)
    return render(request, "dashboard/partials/_emptying.html", context)


def _minutes(request: HttpRequest) -> int:
    """Return in what time a node is to be empty, 0 for no set time; too long for what is no time at all."""
    found = optional_int(request.POST.get("minutes", "").strip() or "0")
    return TOO_LONG if found is None else min(found, TOO_LONG)


def _admins_only(request: HttpRequest) -> None:
    if not signed_in.authority(request).may(Action.NODES):
        raise Http404


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
