"""Live pages of this process: one subscription, one projection a scope, fan-out in memory.

The tick publishes that something changed. The hub then reads the state once for each scope that has
readers, at most a few times a second, and hands the delta to the scope's clients. The timer alone
would be enough; the messages only make it sooner.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import weakref

import redis.asyncio as redis
from channels.db import database_sync_to_async
from django.conf import settings

from dashboard.live_client import Client
from dashboard.live_read import read_rights, read_scope
from dashboard.live_scopes import Message, Scope, ScopeStream
from scheduler.events import CHANGED_CHANNEL

log = logging.getLogger(__name__)

#: At most five projections a second, and one every two seconds whatever is said.
LEAST_GAP_S = 0.2
#: After a round it rests this many times as long as the round took: a large cluster slows the
#: rounds down and leaves the server its time.
REST = 2.0
MOST_GAP_S = 2.0
#: While most pages are behind, how often it is looked whether they still are.
LOOK_S = 0.05
#: Rights are looked up again this often.
RIGHTS_EVERY_S = 2.0
#: A stream that nobody reads is kept this long for clients that poll or come back.
STREAM_KEPT_S = 60.0
RECONNECT_S = 1.0

_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


class Hub:
    """The clients and streams of one event loop."""

    def __init__(self) -> None:
        self._clients: set[Client] = set()
        self._streams: dict[Scope, ScopeStream] = {}
        self._read_at: dict[Scope, float] = {}
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._rights_at = 0.0

    async def join(self, client: Client) -> None:
        """Take a client in; it gets deltas from now on."""
        self._clients.add(client)
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen()),
                asyncio.create_task(self._refresh_for_ever()),
            ]

    async def leave(self, client: Client) -> None:
        """Let a client go; the last one ends the subscription."""
        self._clients.discard(client)
        if self._clients or not self._tasks:
            return
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stream(self, scope: Scope) -> ScopeStream:
        """Return a scope's stream with a state of the last seconds."""
        async with self._lock:
            stream = self._streams.get(scope)
            age_s = time.monotonic() - self._read_at.get(scope, 0.0)
            if stream is None or age_s > MOST_GAP_S:
                stream = stream or ScopeStream(scope)
                message = stream.advance(await database_sync_to_async(read_scope)(scope))
                self._streams[scope] = stream
                self._read_at[scope] = time.monotonic()
                self._hand_out(scope, message)
            return stream

    async def _listen(self) -> None:
        """Hear of changes; a lost connection is opened again."""
        while True:
            try:
                client = redis.Redis.from_url(str(settings.REDIS_URL), socket_timeout=None)
                async with client, client.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(CHANGED_CHANNEL)
                    async for _message in subscription.listen():
                        self._changed.set()
            except (redis.RedisError, OSError) as error:
                log.warning("live.subscription.lost", extra={"error": str(error)})
            await asyncio.sleep(RECONNECT_S)

    async def _refresh_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout=MOST_GAP_S)
            self._changed.clear()
            began_at = time.monotonic()
            try:
                await self._refresh()
            except Exception:
                # The outer edge of this loop: one bad round must not end all pages' updates.
                log.exception("live.refresh.failed")
            took_s = time.monotonic() - began_at
            rest_s = min(MOST_GAP_S, max(LEAST_GAP_S, REST * took_s))
            await asyncio.sleep(rest_s)
            await self._wait_for_readers(MOST_GAP_S - rest_s)

    async def _wait_for_readers(self, most_s: float) -> None:
        """Let what is queued go out first: one delta of two rounds is less to send than two that are late."""
        until = time.monotonic() + most_s
        while self.is_behind() and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)

    def is_behind(self) -> bool:
        """Test whether most pages have something still to be sent; a few slow ones hold up nobody."""
        queued = [bool(client.queue.qsize()) for client in self._clients if not client.paused]
        return 2 * sum(queued) > len(queued)

    async def _refresh(self) -> None:
        await self._check_rights()
        scopes = {client.scope for client in self._clients if not client.paused}
        for scope in scopes:
            async with self._lock:
                stream = self._streams.setdefault(scope, ScopeStream(scope))
                message = stream.advance(await database_sync_to_async(read_scope)(scope))
                self._read_at[scope] = time.monotonic()
                self._hand_out(scope, message)
        self._forget_unread(scopes)

    def _hand_out(self, scope: Scope, message: Message | None) -> None:
        if message is None:
            return
        for client in list(self._clients):
            if client.scope == scope and client.subscribed and not client.paused:
                client.offer(message, stream=self._streams[scope])

    async def _check_rights(self) -> None:
        """Close the clients whose sign-in has ended, or who may see something else than before."""
        if time.monotonic() - self._rights_at < RIGHTS_EVERY_S:
            return
        self._rights_at = time.monotonic()
        marks = {(client.user_id, client.session) for client in self._clients}
        rights = await database_sync_to_async(read_rights)(marks)
        for client in list(self._clients):
            now = rights.get((client.user_id, client.session))
            if now is None:
                client.end(Client.SIGN_IN)
            elif now != client.rights:
                client.end(Client.SCOPE_CHANGED)

    def _forget_unread(self, scopes: set[Scope]) -> None:
        limit = time.monotonic() - STREAM_KEPT_S
        for scope in [s for s, at in self._read_at.items() if at < limit and s not in scopes]:
            self._streams.pop(scope, None)
            self._read_at.pop(scope, None)
