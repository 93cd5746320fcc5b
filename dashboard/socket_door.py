"""Who may open a socket: a page of our own, by a person who is signed in. Asked before anything else.

A browser sends its cookies with a socket that any page opens; only the Origin tells whose page it is. What
is refused never becomes a socket: the handshake is answered 403, and one line in the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from django.conf import settings
from django.http.request import validate_host
from django.utils.http import is_same_domain

from access.models import User
from access.sessions import living_keys
from dashboard.live_client import SessionMark

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
#: Ports that browsers leave out of an Origin.
USUAL_PORTS = {"http": 80, "https": 443}


def behind_the_door(sockets: Application) -> Application:
    """Return the application that lets only our own pages' signed-in readers through to ``sockets``."""
    signed_in: Application = AuthMiddlewareStack(_people_only(sockets))

    async def door(scope: Scope, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        why = foreign_origin(
            origin=headers.get(b"origin", b"").decode("latin1"),
            host=headers.get(b"host", b"").decode("latin1"),
        )
        if why:
            await _refuse(scope, receive, send, why)
            return
        await signed_in(scope, receive, send)

    return door


def foreign_origin(*, origin: str, host: str) -> str:
    """Return why a page of this Origin may not open sockets here; empty where it may.

    Its own is the host and port that the request is for, or one of ``TIDEGATE_TRUSTED_ORIGINS``:
    a proxy may hand on another host name.
    """
    if not origin:
        return "no Origin"
    parts = urlsplit(origin)
    if parts.scheme not in USUAL_PORTS or not parts.hostname:
        return "an Origin that is no address of a page"
    if _is_trusted(origin):
        return ""
    own = urlsplit(f"{parts.scheme}://{host}")
    try:
        is_own = (own.hostname, own.port or USUAL_PORTS[own.scheme]) == (
            parts.hostname,
            parts.port or USUAL_PORTS[parts.scheme],
        )
    except ValueError:  # a port that is no number
        is_own = False
    if not is_own:
        return "an Origin that is another site"
    if not validate_host(own.hostname or "", settings.ALLOWED_HOSTS):
        return "a host name that is not this server's"
    return ""


def _is_trusted(origin: str) -> bool:
    found = urlsplit(origin.lower())
    for trusted in map(urlsplit, settings.CSRF_TRUSTED_ORIGINS):
        if trusted.scheme == found.scheme and is_same_domain(
            found.netloc, trusted.netloc.lstrip("*")
        ):
            return True
    return False


def _people_only(sockets: Application) -> Application:
    async def inner(scope: Scope, receive: Any, send: Any) -> None:
        user, session = scope.get("user"), scope["session"]
        if not isinstance(user, User) or not user.is_active:
            await _refuse(scope, receive, send, "nobody is signed in")
            return
        mark = SessionMark(session.session_key or "", user.get_session_auth_hash())
        if not await database_sync_to_async(living_keys)([mark.key]):
            await _refuse(scope, receive, send, "the sign-in has ended")
            return
        scope["session_mark"] = mark
        await sockets(scope, receive, send)

    return inner


async def _refuse(scope: Scope, receive: Any, send: Any, why: str) -> None:
    """Close before accepting: servers answer the handshake with 403."""
    headers = dict(scope.get("headers", ()))
    log.warning(
        "socket.refused",
        extra={
            "why": why,
            "path": scope.get("path", ""),
            "origin": headers.get(b"origin", b"").decode("latin1")[:200],
            "host": headers.get(b"host", b"").decode("latin1")[:200],
            "client": (scope.get("client") or ("",))[0],
        },
    )
    await receive()
    await send({"type": "websocket.close", "code": 4403})
