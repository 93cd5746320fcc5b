"""uvicorn's HTTP protocol with its writes joined: what one turn of the loop writes goes out at once.

uvicorn writes an answer's head and its first part one by one, and each write is a call into the kernel
that carries the packet all the way to its reader: about a tenth of what a small answer costs.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: So much is not held back any longer: flow control counts only what was written.
MOST_HELD_BYTES = 16 * 1024


class CorkedTransport:
    """A transport that joins small writes; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.uncorked = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._held = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.uncorked, name)

    def write(self, data: bytes) -> None:
        """Write with what else is written in this turn of the loop."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._held += len(data)
        if self._held > MOST_HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held now."""
        parts, self._parts, self._held = self._parts, [], 0
        if parts:
            self.uncorked.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Write what is held, and close."""
        self.flush()
        self.uncorked.close()


class CorkedProtocol(HttpToolsProtocol):
    """Give it to uvicorn: ``--http gateway.corked:CorkedProtocol``."""

    _corked: CorkedTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self._corked = CorkedTransport(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", self._corked))

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection on, without what joins writes of answers."""
        self._corked.flush()
        self.transport = self._corked.uncorked
        super().handle_websocket_upgrade()
