"""The consumption page's socket: the running period's figures, again and again."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.utils import timezone, translation

from access.models import User
from dashboard.live_client import Client, SessionMark
from dashboard.live_read import read_rights, zone_named
from dashboard.reader_zone import ZONE_COOKIE
from reports.asked import parse_asked
from reports.page import live_state
from reports.refused import ReportRefused

EVERY_S = 2.0
#: A report that takes long is made less often: at most this part of the time goes into it.
SHARE_OF_TIME = 0.1
MOST_BYTES = 4096


class ReportConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One open report. Whoever may no longer see something gets the next figures without it."""

    channel_layer_alias = ""
    task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Take in whom the door has let through (``socket_door.py``)."""
        user = self.scope["user"]
        assert isinstance(user, User)
        await self.accept()
        self.task = asyncio.create_task(self._tell(user.pk))

    async def disconnect(self, code: int) -> None:
        """End this connection's work."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _tell(self, user_id: int) -> None:
        query = bytes(self.scope.get("query_string", b""))[:MOST_BYTES].decode("utf-8", "replace")
        # The page says its language: it may have come from the browser's own, without a cookie.
        language = _language(parse_qs(query).get("language", [""])[-1])
        zone = self.scope.get("cookies", {}).get(ZONE_COOKIE, "")
        who = (user_id, self.scope.get("session_mark"))
        while True:
            began = time.monotonic()
            state = await database_sync_to_async(_state)(who, query, language, zone)
            if state is None:
                await self.close(code=Client.SIGN_IN)
                return
            await self.send(text_data=json.dumps(state, ensure_ascii=False))
            took_s = time.monotonic() - began
            await asyncio.sleep(max(EVERY_S, took_s / SHARE_OF_TIME))


def _language(code: str) -> str:
    try:
        return translation.get_supported_language_variant(code.lower())
    except LookupError:
        return settings.LANGUAGE_CODE


def _state(
    who: tuple[int, SessionMark | None], query: str, language: str, zone: str
) -> dict[str, Any] | None:
    """Return the figures as the user may see them now; None for one who is no longer signed in."""
    rights = read_rights([who]).get(who)
    if rights is None:
        return None
    now = timezone.now()
    with translation.override(language), timezone.override(zone_named(zone)):
        try:
            asked = parse_asked(
                words=parse_qs(query), zone=timezone.get_current_timezone_name(), now=now
            )
            state = live_state(visible=rights.visible, asked=asked, now=now)
        except ReportRefused as refused:
            return {"t": "refused", "why": str(refused)}
    return {"t": "report", **state}
