"""HTTP/1.1 to replicas: kept connections, answers read as they come, and whether anything was sent.

Written for this one use because of what a general client does not tell: a request may go to another
replica only while not one byte of it has gone out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import cast

import httptools

log = logging.getLogger(__name__)

#: Kept no longer than this without use: well below what servers allow (5 s at uvicorn).
IDLE_S = 2.0
KEPT_EACH = 512
CONNECT_TIMEOUT_S = 2.0
#: Unread bytes of an answer from which on the replica is not read further.
HIGH_WATER = 256 * 1024

Headers = Sequence[tuple[bytes, bytes]]


class Refused(Exception):
    """No connection: nothing of the request was sent."""


class Broken(Exception):
    """The connection ended in the middle of the exchange."""


class Connection(asyncio.Protocol):
    """One connection to a replica, for one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._waiter: asyncio.Future[None] | None = None
        self._parts: deque[bytes] = deque()
        self._unread = 0
        self._parser: httptools.HttpResponseParser | None = None
        self._paused = False
        self._keeps_alive = False
        self._method = b""
        #: Part of the request's body is still to be sent: it would be taken for the next request.
        self._owes_body = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_known = False
        self.complete = False
        self.lost = False
        self.idle_since = 0.0

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.headers_known and not self.complete and exc is None and self._ends_by_closing():
            self.complete = True
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.complete:
            self.close()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    # -- httptools -------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:
            self.headers.clear()
            return
        self.headers_known = True
        if self._method == b"HEAD" or self.status in (204, 304):
            self.complete = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._unread += len(body)
        if self._unread > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.headers_known and self._parser is not None:
            # Asked now: the parser forgets it with the end of the message.
            self._keeps_alive = self._parser.should_keep_alive()
            self.complete = True
            self._wake()

    # -- one exchange ----------------------------------------------------------------------------

    def begin(self, method: bytes, head: bytes, *, owes_body: bool = False) -> None:
        """Write a request's head; with ``owes_body`` a body is sent after it by ``send_body``."""
        assert self._transport is not None
        self._method = method
        self._owes_body = owes_body
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)  # reads one answer after the other
        self.headers = []
        self.headers_known = self.complete = self._keeps_alive = False
        self._transport.write(head)

    async def write(self, data: bytes) -> None:
        """Write a part of the request's body, no faster than the replica takes it."""
        if self.lost or self._transport is None:
            raise Broken
        self._transport.write(data)
        await self._writable.wait()

    def end_body(self) -> None:
        """Note that the request's body was sent whole."""
        self._owes_body = False

    async def wait_for_head(self) -> None:
        """Wait until the status and headers are there."""
        while not self.headers_known:
            if self.lost:
                raise Broken
            await self._wait()

    async def read(self) -> bytes:
        """Return what has come of the body, or nothing at its end."""
        while not self._parts:
            if self.complete:
                return b""
            if self.lost:
                raise Broken
            await self._wait()
        data = self._parts.popleft() if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._unread = 0
        if self._paused and self._transport is not None and not self.lost:
            self._paused = False
            self._transport.resume_reading()
        return data

    def is_reusable(self) -> bool:
        """Test whether another exchange may follow on this connection."""
        return (
            self.complete
            and not self.lost
            and not self._parts
            and not self._owes_body
            and self._method != b"HEAD"
            and self._keeps_alive
        )

    def close(self) -> None:
        """End the connection at once; what the replica computes for it is in vain."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _ends_by_closing(self) -> bool:
        names = {name for name, _ in self.headers}
        return b"content-length" not in names and b"transfer-encoding" not in names

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Upstream:
    """The kept connections to all replicas."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], deque[Connection]] = {}

    async def connect(self, host: str, port: int) -> Connection:
        """Return a connection on which nothing has been sent for this exchange.

        Raises:
            Refused: the replica takes none.
        """
        kept = self._kept.get((host, port))
        while kept:
            connection = kept.pop()
            if not connection.lost and time.monotonic() - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(Connection, host, port)
        except (OSError, TimeoutError) as error:
            raise Refused(f"{host}:{port}: {error}") from error
        return connection

    def give_back(self, host: str, port: int, connection: Connection) -> None:
        """Keep a connection whose exchange is over, or close it."""
        kept = self._kept.setdefault((host, port), deque())
        if not connection.is_reusable() or len(kept) >= KEPT_EACH:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        kept.append(connection)

    @property
    def is_empty(self) -> bool:
        """Tell whether no connection is kept."""
        return not self._kept

    def sweep(self) -> None:
        """Close what was not used for a while."""
        before = time.monotonic() - IDLE_S
        for address, kept in list(self._kept.items()):
            while kept and (kept[0].lost or kept[0].idle_since < before):
                kept.popleft().close()
            if not kept:
                del self._kept[address]

    def close(self) -> None:
        """Close all kept connections."""
        for kept in self._kept.values():
            for connection in kept:
                connection.close()
        self._kept.clear()


def head_of(*, method: str, target: bytes, host: str, headers: Headers) -> bytes:
    """Return a request's head as bytes. Names and values come from a server that checked them."""
    lines = [method.encode(), b" ", target, b" HTTP/1.1\r\nhost: ", host.encode(), b"\r\n"]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


async def send_body(
    *, connection: Connection, chunks: AsyncIterator[bytes], is_chunked: bool
) -> None:
    """Write a body part by part. That the connection broke is seen by whoever reads the answer."""
    try:
        async for chunk in chunks:
            if is_chunked:
                chunk = b"%x\r\n%s\r\n" % (len(chunk), chunk)
            await connection.write(chunk)
        if is_chunked:
            await connection.write(b"0\r\n\r\n")
    except Broken:
        log.debug("gateway.upload.broken")
    else:
        connection.end_body()
