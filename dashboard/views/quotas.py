"""The quota tree."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import live_wire
from dashboard.views import signed_in
from scheduler.queries import overview as overviews
from scheduler.queries import units


@login_required
@require_GET
def quotas(request: HttpRequest) -> HttpResponse:
    """Answer who holds, lends, borrows and is short."""
    now = timezone.now()
    found = overviews.read_overview(
        visible=signed_in.visible_to(request), pool_name=request.GET.get("pool", ""), now=now
    )
    rows = found.tree.rows if found else ()
    wire = live_wire.overview_to_wire(found) if found else None
    state = None
    if found and wire:
        parts = {name: wire[name] for name in ("quota", "pr", "frame")}
        state = {"parts": parts, "at": int(now.timestamp() * 1000), "cycle": found.cycle}
    return render(
        request,
        "dashboard/quotas.html",
        {
            "rows": rows,
            "slugs": units.read_slugs(visible=signed_in.visible_to(request)),
            "page_state": state,
            "pool": found.pool if found else None,
            "short": [
                row
                for row in rows
                if not row.is_department and row.waiting and row.held_mgpu < row.quota_mgpu
            ],
            "borrowing": sorted(
                (row for row in rows if not row.is_department and row.borrowed_mgpu),
                key=lambda row: -row.borrowed_mgpu,
            ),
        },
    )
