"""The Overview, its last 24 hours, and the first page of an empty cluster."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from django.contrib.auth.decorators import login_required
from django.core.management import call_command
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard import demonstrations, live_wire
from dashboard.views import demo_day, signed_in
from reports.averages import averages_by_project
from scheduler.operations.authority import Action
from scheduler.queries import overview as overviews
from scheduler.queries.day import begin_of_records
from scheduler.queries.pool_state import PoolRow, list_pools
from scheduler.queries.visibility import Visibility


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """Answer the Overview, complete; scripts keep it current."""
    now = timezone.now()
    visible = signed_in.visible_to(request)
    pool_name = request.GET.get("pool", "")
    found = overviews.read_overview(visible=visible, pool_name=pool_name, now=now)
    if found is None or not found.tiles.gpus:
        may_lay = signed_in.authority(request).may(Action.NODES)
        return render(
            request,
            "dashboard/first.html",
            {"demonstrations": demonstrations.ALL if may_lay else ()},
        )
    wire = live_wire.overview_to_wire(found)
    day = overviews.read_overview_day(visible=visible, pool_id=found.pool.id, now=now)
    return render(
        request,
        "dashboard/overview.html",
        {
            "overview": found,
            "page_state": {"parts": wire, "at": int(now.timestamp() * 1000), "cycle": found.cycle},
            "day": live_wire.day_to_wire(day),
            "waiting_shown": found.waiting[: live_wire.WAITING_SHOWN],
            "idle_cost_shown": _money(found.tiles),
            "demo_day": demo_day.read_for(request),
            "map_height": _map_height([len(node.devices) for node in found.map.nodes]),
        },
    )


@login_required
@require_GET
def overview_day(request: HttpRequest) -> JsonResponse:
    """Answer the last 24 hours as JSON."""
    visible = signed_in.visible_to(request)
    pool = _wanted_pool(request, visible)
    day = overviews.read_overview_day(visible=visible, pool_id=pool.id, now=timezone.now())
    return JsonResponse(live_wire.day_to_wire(day))


@login_required
@require_GET
def overview_averages(request: HttpRequest) -> HttpResponse:
    """Answer what projects held on average over the last 24 hours, as a part of the page."""
    visible, now = signed_in.visible_to(request), timezone.now()
    pool_id = _wanted_pool(request, visible).id
    found = averages_by_project(
        visible=visible,
        pool_id=pool_id,
        begin_us=begin_of_records(visible=visible, pool_id=pool_id, now=now),
        zone=timezone.get_current_timezone_name(),
        now=now,
    )
    return render(request, "dashboard/partials/_averages.html", {"averages": found})


def _wanted_pool(request: HttpRequest, visible: Visibility) -> PoolRow:
    pools = list_pools(visible=visible)
    wanted = request.GET.get("pool", "")
    pool = next((row for row in pools if row.name == wanted), pools[0] if pools else None)
    if pool is None:
        raise Http404
    return pool


@login_required
@require_POST
def choose_demonstration(request: HttpRequest) -> HttpResponse:
    """Lay the chosen demonstration into an empty cluster."""
    if not signed_in.authority(request).may(Action.NODES):
        raise Http404
    name = request.POST.get("demo", "")
    if name not in {demo.name for demo in demonstrations.ALL}:
        raise Http404
    found = overviews.read_overview(visible=signed_in.visible_to(request), now=timezone.now())
    if found is None or not found.tiles.gpus:
        call_command("seed_demo", demo=name, verbosity=0)
    return redirect("overview")


def _map_height(devices: list[int]) -> float:
    """Return the height that static/js/live/geometry.js gives the map, so that nothing jumps."""
    rows = len(devices)
    bar, pitch = 24, 35.2
    if rows <= 2 and max(devices, default=0) <= 8:
        bar, pitch = 44, 62
    elif rows > 64:
        bar, pitch = 8, 11
    elif rows > 16:
        bar, pitch = 14, 20
    return 16 + rows * pitch - (pitch - bar) + 8


def _money(tiles: overviews.Tiles) -> str:
    if tiles.idle_cost is None:
        return ""
    unit = Decimal(1) if tiles.idle_cost >= 100 else Decimal("0.01")
    return f"{tiles.currency}{tiles.idle_cost.quantize(unit, ROUND_HALF_UP):,}"
