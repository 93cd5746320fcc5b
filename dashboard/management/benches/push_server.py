"""The server of ``bench push``: the product's live socket, or one group of Channels, with made-up messages.

``own`` is the consumer and hub of the product. Only the reads are replaced: the state is made up, 2 KiB
of it change each time, and readers are always allowed what they see. ``group`` is the same told to the
members of a group over Redis.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import django

django.setup()

from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.layers import get_channel_layer  # noqa: E402

from access.models import User  # noqa: E402
from dashboard import consumers, live_hub  # noqa: E402
from dashboard.live_scopes import Loaded, Rights, Scope  # noqa: E402
from scheduler.queries.visibility import WHOLE_CLUSTER  # noqa: E402

EVERY_S = 0.1
#: So many GPUs change each time: about 2 KiB of message.
CHANGED = 62
GROUP = "bench"
_step = 0
_tasks: set[asyncio.Task[None]] = set()

Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def _state(scope: Scope) -> Loaded:
    global _step
    _step += 1
    now_ms = int(time.time() * 1000)
    parts: dict[str, object] = {
        "nodes": [],
        "gpu": {str(at): [[at, 500, _step % 2], [at + 9000, 500, 0]] for at in range(CHANGED)},
        "wl": {},
        "ut": {},
        "pr": {},
        "act": [],
        "kpi": {"util": None},
    }
    return Loaded(parts=parts, at_ms=now_ms, cycle=_step, last_cycle_ms=now_ms)


def _rights(marks: Any) -> dict[Any, Rights]:
    return {mark: Rights(visible=WHOLE_CLUSTER, scratch=None) for mark in marks}


vars(live_hub)["read_scope"] = _state
vars(live_hub)["read_rights"] = _rights
vars(live_hub)["LEAST_GAP_S"] = EVERY_S
vars(live_hub)["REST"] = 0.0
vars(consumers)["rights_of"] = lambda user: Rights(visible=WHOLE_CLUSTER, scratch=None)


async def own(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve the product's consumer; the state changes ten times a second."""
    if scope["type"] != "websocket":
        return
    if not _tasks:
        _keep(_change_for_ever())
    consumer: Asgi = consumers.LiveConsumer.as_asgi()
    await consumer({**scope, "user": User(pk=1, username="bench")}, receive, send)


async def _change_for_ever() -> None:
    while True:
        live_hub.hub()._changed.set()
        await asyncio.sleep(EVERY_S)


class Member(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One socket in the group."""

    async def connect(self) -> None:
        """Join."""
        await self.accept()
        await self.channel_layer.group_add(GROUP, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer the subscription, as the product's socket does."""
        await self.send(text_data='{"t": "snap"}')

    async def told(self, event: dict[str, Any]) -> None:
        """Pass on what the group was told."""
        await self.send(text_data=event["text"])


async def group(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve a member of the group; the group is told ten times a second."""
    if scope["type"] != "websocket":
        return
    if not _tasks:
        _keep(_tell_for_ever())
    consumer: Asgi = Member.as_asgi()
    await consumer(scope, receive, send)


async def _tell_for_ever() -> None:
    layer = get_channel_layer()
    assert layer is not None
    while True:
        loaded = _state(Scope(visible=WHOLE_CLUSTER, language="en", zone="", pool_name=""))
        message = {"t": "d", "ts": loaded.at_ms, **loaded.parts}
        text = json.dumps(message, separators=(",", ":"))
        await layer.group_send(GROUP, {"type": "told", "text": text})
        await asyncio.sleep(EVERY_S)


def _keep(work: Any) -> None:
    _tasks.add(asyncio.create_task(work))
