"""``/healthz``: whether this server process answers, without database, session or host check."""

from __future__ import annotations

from typing import Any, Protocol

HEALTH_PATH = "/healthz"
BODY = b"ok\n"


class Application(Protocol):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


def answer_health(application: Any) -> Application:
    """Return ``application`` with ``/healthz`` answered before it."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != HEALTH_PATH:
            await application(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain"),
            (b"content-length", str(len(BODY)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})

    return answer
