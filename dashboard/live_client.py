"""One open page: its scope, its topics, and a bounded queue of what it has still to be sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dashboard.live_scopes import Message, Rights, Scope, ScopeStream

QUEUE_SIZE = 64


@dataclass(frozen=True, slots=True)
class SessionMark:
    """By which session a socket was opened, and for which password that was."""

    key: str
    password_mark: str


class Client:
    """What the hub knows of one connection."""

    #: Close codes: sign in again; what one may see has changed, load the page again.
    SIGN_IN = 4401
    SCOPE_CHANGED = 4403

    def __init__(
        self, *, user_id: int, scope: Scope, rights: Rights, session: SessionMark | None = None
    ) -> None:
        self.user_id = user_id
        #: The sign-in that the page came with; None only in tests of what does not depend on it.
        self.session = session
        self.scope = scope
        #: What its user might see when it came.
        self.rights = rights
        self.topics: frozenset[str] = frozenset()
        self.subscribed = False
        self.paused = False
        #: Texts to send; a number is a close code and the last entry.
        self.queue: asyncio.Queue[str | int] = asyncio.Queue(maxsize=QUEUE_SIZE)

    def offer(self, message: Message, *, stream: ScopeStream) -> None:
        """Queue a message; a client that is too slow loses its queue and gets the whole state."""
        if self.queue.full():
            self._drop()
            message = stream.snapshot()
        self.queue.put_nowait(message.encoded(self.topics))

    def end(self, code: int) -> None:
        """Close the connection with ``code``, before anything that is still queued."""
        self._drop()
        self.subscribed = False
        self.queue.put_nowait(code)

    def _drop(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
