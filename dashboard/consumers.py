"""The live socket: subscribe, resync, pause; snapshots, numbered deltas and heartbeats."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.utils import translation

from access.models import User
from dashboard.live_client import Client
from dashboard.live_hub import hub
from dashboard.live_read import rights_of
from dashboard.live_scopes import Scope
from dashboard.live_wire import TOPICS
from dashboard.reader_zone import ZONE_COOKIE

HEARTBEAT_S = 5.0
MOST_BYTES = 4096


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One page's connection. It is fed by the hub, so it takes no part in a channel layer."""

    channel_layer_alias = ""
    client: Client | None = None
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        """Take in whom the door has let through (``socket_door.py``)."""
        user = self.scope["user"]
        assert isinstance(user, User)
        await self.accept()
        rights = await database_sync_to_async(rights_of)(user)
        cookies = _cookies(self.scope)
        scope = Scope(
            visible=rights.visible,
            language=_language(self.scope, cookies),
            zone=cookies.get(ZONE_COOKIE, ""),
            pool_name="",
        )
        self.client = Client(
            user_id=user.pk, scope=scope, rights=rights, session=self.scope.get("session_mark")
        )
        await hub().join(self.client)
        self.tasks = (
            asyncio.create_task(self._send_queued(self.client)),
            asyncio.create_task(self._beat(self.client)),
        )

    async def disconnect(self, code: int) -> None:
        """Leave the hub and end this connection's tasks."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.client is not None:
            await hub().leave(self.client)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Carry out one request of the page; anything else is a broken client and is ignored."""
        order = _order(text_data)
        if self.client is None or order is None:
            return
        match order.get("op"):
            case "sub":
                await self._subscribe(self.client, order)
            case "resync":
                await self._resync(self.client)
            case "pause":
                self.client.paused = True
            case _:
                return

    async def _subscribe(self, client: Client, order: dict[str, Any]) -> None:
        topics = order.get("topics")
        asked = topics if isinstance(topics, list) else []
        client.topics = frozenset(
            name for name in asked if isinstance(name, str) and name in TOPICS
        )
        pool_name = order.get("pool")
        if isinstance(pool_name, str):
            client.scope = replace(
                client.scope,
                visible=client.rights.seen(scratch=order.get("scratch") is True),
                pool_name=pool_name[:63],
            )
        client.paused = False
        since, name = order.get("since"), order.get("stream")
        stream = await hub().stream(client.scope)
        seq = since if isinstance(since, int) else 0
        missed = stream.since(seq=seq, name=name if isinstance(name, str) else "")
        client.subscribed = True
        for message in missed:
            client.offer(message, stream=stream)

    async def _resync(self, client: Client) -> None:
        client.paused = False
        client.subscribed = True
        stream = await hub().stream(client.scope)
        client.offer(stream.snapshot(), stream=stream)

    async def _send_queued(self, client: Client) -> None:
        while True:
            item = await client.queue.get()
            if isinstance(item, int):
                await self.close(code=item)
                return
            await self.send(text_data=item)

    async def _beat(self, client: Client) -> None:
        while True:
            stream = await hub().stream(client.scope)
            loaded = stream.loaded
            beat = {
                "t": "h",
                "now": int(time.time() * 1000),
                "seq": stream.seq,
                "cycle": loaded.cycle if loaded else 0,
                "last": loaded.last_cycle_ms if loaded else None,
            }
            await self.send(text_data=json.dumps(beat))
            await asyncio.sleep(HEARTBEAT_S)


def _order(text: str | None) -> dict[str, Any] | None:
    if text is None or len(text) > MOST_BYTES:
        return None
    try:
        order = json.loads(text)
    except ValueError:
        return None
    return order if isinstance(order, dict) else None


def _cookies(scope: dict[str, Any]) -> dict[str, str]:
    for name, value in scope.get("headers", ()):
        if name == b"cookie":
            try:
                parsed = SimpleCookie(value.decode("latin1"))
            except CookieError:
                return {}
            return {key: morsel.value for key, morsel in parsed.items()}
    return {}


def _language(scope: dict[str, Any], cookies: dict[str, str]) -> str:
    """Return the language that the page says it is in; it may come from the browser, not a cookie."""
    query = bytes(scope.get("query_string", b""))[:MOST_BYTES].decode("utf-8", "replace")
    asked = parse_qs(query).get("language", [""])[-1]
    for code in (asked, cookies.get(settings.LANGUAGE_COOKIE_NAME, "")):
        try:
            return translation.get_supported_language_variant(code.lower())
        except LookupError:
            continue
    return settings.LANGUAGE_CODE
