"""Live pages without a WebSocket: the same messages, asked for every five seconds."""

from __future__ import annotations

import json
import time

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import translation

from access.models import User
from dashboard.live_hub import hub
from dashboard.live_read import rights_of
from dashboard.live_scopes import Scope
from dashboard.live_wire import TOPICS
from dashboard.reader_zone import ZONE_COOKIE
from dashboard.views.numbers import optional_int


async def live(request: HttpRequest) -> HttpResponse:
    """Answer ``{"messages": [...], "now": ..., "cycle": ..., "last": ...}``."""
    user = await request.auser()
    if not isinstance(user, User):
        return JsonResponse({"detail": "sign in"}, status=401)
    rights = await database_sync_to_async(rights_of)(user)
    scope = Scope(
        visible=rights.seen(scratch=request.GET.get("scratch") == "1"),
        language=translation.get_language() or "en",
        zone=request.COOKIES.get(ZONE_COOKIE, ""),
        pool_name=request.GET.get("pool", "")[:63],
    )
    topics = frozenset(name for name in request.GET.get("topics", "").split(",") if name in TOPICS)
    stream = await hub().stream(scope)
    missed = stream.since(
        seq=optional_int(request.GET.get("since")) or 0, name=request.GET.get("stream", "")
    )
    loaded = stream.loaded
    return JsonResponse(
        {
            "messages": [json.loads(message.encoded(topics)) for message in missed],
            "now": int(time.time() * 1000),
            "cycle": loaded.cycle if loaded else 0,
            "last": loaded.last_cycle_ms if loaded else None,
        }
    )
