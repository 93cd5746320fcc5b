"""The map alone: live, in groups, colored by what one asks; or as it was at a decision."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from dashboard import live_wire
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.queries import overview as overviews
from scheduler.queries.past_map import PastMap, read_past_map
from scheduler.queries.pool_state import list_pools
from scheduler.queries.visibility import Visibility

TOPICS = frozenset({"map", "kpi", "quota", "events"})


@login_required
@require_GET
def the_map(request: HttpRequest) -> HttpResponse:
    """Answer the map of one pool, of all where they are grouped by pool, or of the past."""
    visible = signed_in.visible_to(request)
    at = optional_int(request.GET.get("at"))
    past = read_past_map(visible=visible, decision_id=at) if at is not None else None
    if at is not None and past is None:
        raise Http404
    pools = list_pools(visible=visible)
    asked = _asked(request)
    names = [pool.name for pool in pools]
    chosen = request.GET.get("pool", "")
    if chosen not in names:
        chosen = names[0] if names else ""
    if past is not None:
        asked["group"] = "none"
    shown = names if asked["group"] == "pool" else [chosen]
    return render(
        request,
        "dashboard/map.html",
        {
            "asked": asked,
            "past": past,
            "partial": not visible.cluster,
            "pools": names,
            "pool": chosen,
            "map_state": [_past_state(past)] if past else _states(visible, shown),
            "choices": _choices(),
        },
    )


def _asked(request: HttpRequest) -> dict[str, str]:
    """Return what the address asks for; what it can't mean is left at its default."""
    found = {
        name: value if value in dict(options) else next(iter(dict(options)))
        for name, options in _choices().items()
        for value in (request.GET.get(name, ""),)
    }
    found["table"] = "1" if request.GET.get("table") == "1" else ""
    found["node"] = request.GET.get("node", "")[:63]
    return found


def _choices() -> dict[str, list[tuple[str, str]]]:
    return {
        "color": [
            ("project", _("Project")),
            ("quota", _("Quota")),
            ("util", _("Utilization")),
            ("type", _("Type")),
            ("dept", _("Department")),
        ],
        "group": [
            ("none", _("No groups")),
            ("pool", _("Node pool")),
            ("department", _("Department")),
        ],
        "density": [
            ("auto", _("Automatic")),
            ("comfortable", _("Comfortable")),
            ("compact", _("Compact")),
            ("dense", _("Dense")),
        ],
    }


def _states(visible: Visibility, names: list[str]) -> list[dict[str, object]]:
    states: list[dict[str, object]] = []
    for name in names:
        found = overviews.read_overview(visible=visible, pool_name=name, now=timezone.now())
        if found is not None:
            parts = live_wire.only(live_wire.overview_to_wire(found), TOPICS)
            states.append({"pool": name, "parts": parts})
    return states


def _past_state(past: PastMap) -> dict[str, object]:
    return {
        "pool": past.pool_name,
        "parts": {
            **live_wire.map_to_wire(past.map),
            "pr": {str(key): list(each) for key, each in past.projects.items()},
            "frame": {"partial": False},
            "kpi": {"waiting": None},
            "quota": {"rows": [], "unused": 0},
            "act": [],
            "ev": [],
        },
    }
