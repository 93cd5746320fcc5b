"""The quota tree."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from dashboard import live_wire
from dashboard.views import signed_in
from scheduler.queries import overview as overviews
from scheduler.queries import units
from scheduler.queries.pool_state import list_pools
from scheduler.queries.queues import QueueRow


@login_required
@require_GET
def quotas(request: HttpRequest) -> HttpResponse:
    """Answer who holds, lends, borrows and is short."""
    now = timezone.now()
    visible = signed_in.visible_to(request)
    found = overviews.read_overview(visible=visible, pool_name=request.GET.get("pool", ""), now=now)
    rows = found.tree.rows if found else ()
    only = request.GET.get("only", "")
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
            "unit": "pct" if request.GET.get("unit") == "pct" else "gpu",
            "only": only if only in dict(_only()) else "",
            "only_choices": _only(),
            "pools": [pool.name for pool in list_pools(visible=visible)],
            "promised": _promised_too_much(rows),
            "slugs": units.read_slugs(visible=visible),
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


def _only() -> list[tuple[str, str]]:
    """Return what the bars may be narrowed to."""
    return [
        ("", _("All units")),
        ("borrowing", _("Borrowing")),
        ("short", _("Short of guarantee")),
        ("idle", _("Idle")),
    ]


def _promised_too_much(rows: Sequence[QueueRow]) -> list[dict[str, object]]:
    """Return the departments whose projects are guaranteed more than they are themselves."""
    found: list[dict[str, object]] = []
    department, parts_mgpu = None, 0
    for row in (*rows, None):
        if row is not None and not row.is_department:
            parts_mgpu += row.quota_mgpu
            continue
        if department is not None and department.known and parts_mgpu > department.quota_mgpu:
            found.append(
                {"name": department.name, "own": department.quota_mgpu, "parts": parts_mgpu}
            )
        department, parts_mgpu = row, 0
    return found
