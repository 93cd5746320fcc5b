"""The door of workspaces: an address of their own, a ticket to enter, a right that is asked again and again.

What a workspace shows is somebody's program. Each is served at a host of its own below a name that the
product itself is not served at (``TIDEGATE_WORKSPACE_URL``), so that it can neither read nor use a sign-in
there, nor what its guest may do in another workspace. One enters by a ticket that the product's page posts;
it holds for half a minute and once, and is never in an address. From then on a cookie of that host says who
it is. Neither holds the key of a sign-in: a workspace could read them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.core import signing
from django.utils import timezone

from access import counting
from access.models import User
from access.scopes import authority_of
from access.sessions import is_open
from gateway.exchange import Exchange
from gateway.upstream import IDLE_S, Upstream
from gateway.workspaces import PREFIX, NotThere, Target, carry, carry_socket
from scheduler.operations import replica_tokens
from scheduler.operations.authority import Action
from scheduler.queries import workspaces

Application = Callable[[Any, Any, Any], Awaitable[None]]
TICKET_S, STAY_S = 30, 12 * 3600
#: How long a right that was asked for holds.
RIGHT_S = 5.0
COOKIE = "tidegate_workspace"
_TICKET, _STAY = "tidegate.workspace.ticket", "tidegate.workspace.stay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """Who uses one workspace, by which sign-in (``access.sessions.mark_of``)."""

    user_id: int
    session_mark: str
    workload_id: int


def ticket_of(guest: Guest) -> str:
    """Return what lets a guest in once, within half a minute."""
    value = [guest.user_id, guest.session_mark, guest.workload_id, secrets.token_hex(8)]
    return signing.dumps(value, salt=_TICKET)


class Door:
    """The application before all others: workspaces at their own host, and nothing else there."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._upstream = Upstream()
        self._next_sweep: asyncio.TimerHandle | None = None
        self.rights: dict[str, tuple[float, workspaces.Workspace | None]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or not _is_own_host(scope):
            await self._application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        workload_id = _id_in(scope["path"])
        if workload_id is None or _host_of(headers) != urlsplit(address_of(workload_id)).netloc:
            await self._elsewhere(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send, workload_id, headers)
        elif scope["method"] == "POST" and scope["path"] == f"{PREFIX}{workload_id}/~enter":
            await self._enter(scope, receive, send, workload_id)
        else:
            await self._request(scope, receive, send, workload_id, headers)

    async def _elsewhere(self, scope: Any, receive: Any, send: Any) -> None:
        """Below the workspaces' name there is nothing else; at it, nobody is signed in."""
        own, home = (urlsplit(str(url)) for url in (settings.WORKSPACE_URL, settings.PRODUCT_URL))
        if _host_of(dict(scope["headers"])) != own.netloc:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 4403})
            else:
                await _say(send, 404, "There is no such workspace, or it is not running.")
            return
        if scope["type"] == "http" and home.netloc not in ("", own.netloc):
            # Whoever typed this machine's other name comes to the product.
            await _start(send, 303, [(b"location", home.geturl().encode() + scope["raw_path"])])
            return
        kept = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        await self._application({**scope, "headers": kept}, receive, send)

    async def _enter(self, scope: Any, receive: Any, send: Any, workload_id: int) -> None:
        body = await _read(receive)
        ticket = parse_qs(body.decode("latin1")).get("ticket", [""])[0]
        guest = _guest_of(ticket, salt=_TICKET, within_s=TICKET_S)
        if (
            guest is None
            or guest.workload_id != workload_id
            or not await database_sync_to_async(_is_first)(ticket)
        ):
            await _say(send, 403, "This ticket is over. Open the workspace from its page again.")
            return
        stay = signing.dumps([guest.user_id, guest.session_mark, workload_id], salt=_STAY)
        path = f"{PREFIX}{workload_id}/"
        cookie = f"{COOKIE}={stay}; Path={path}; Max-Age={STAY_S}; HttpOnly; SameSite=Lax"
        if settings.HTTPS:
            cookie += "; Secure"
        headers = [(b"location", path.encode()), (b"set-cookie", cookie.encode())]
        await _start(send, 303, headers)

    async def _request(
        self, scope: Any, receive: Any, send: Any, workload_id: int, headers: Mapping[bytes, bytes]
    ) -> None:
        found = await self._allowed(headers, workload_id)
        if found is not None and _origin_of(headers) not in ("", _host_of(headers)):
            await _say(send, 403, "This workspace answers no other page than its own.")
            return
        if found is None:
            await _say(send, 404, "There is no such workspace, or it is not running.")
            return
        exchange = Exchange(scope, receive, send)
        try:
            await exchange.open()
            carrying = asyncio.create_task(
                carry(exchange=exchange, target=_target(found), upstream=self._upstream)
            )
            if await self._while_allowed(carrying, headers, found):
                await carrying
        except NotThere as error:
            await _say(send, 502, str(error))
        except asyncio.CancelledError:
            if exchange.problem is None and not exchange.gone:
                raise
            if exchange.problem is not None and not exchange.answering:
                await _say(send, exchange.problem.status, str(exchange.problem))
        finally:
            await exchange.close()
            self._sweep_later()

    def _sweep_later(self) -> None:
        """Have kept connections closed that nobody uses any more, for as long as there are some."""
        loop = asyncio.get_running_loop()
        if self._next_sweep is None or self._next_sweep.when() < loop.time():
            self._next_sweep = loop.call_later(IDLE_S, self._sweep)

    def _sweep(self) -> None:
        self._next_sweep = None
        self._upstream.sweep()
        if not self._upstream.is_empty:
            self._sweep_later()

    async def _socket(
        self, scope: Any, receive: Any, send: Any, workload_id: int, headers: Mapping[bytes, bytes]
    ) -> None:
        found = None
        if _origin_of(headers) == _host_of(headers):
            found = await self._allowed(headers, workload_id)
        if found is None:
            await receive()
            await send({"type": "websocket.close", "code": 4403})
            return
        carrying = asyncio.create_task(
            carry_socket(scope=scope, receive=receive, send=send, target=_target(found))
        )
        await self._while_allowed(carrying, headers, found)

    async def _while_allowed(
        self,
        carrying: asyncio.Task[None],
        headers: Mapping[bytes, bytes],
        found: workspaces.Workspace,
    ) -> bool:
        """Let it go on for as long as the right lasts; tell whether it came to its end."""
        try:
            while not carrying.done():
                await asyncio.wait([carrying], timeout=RIGHT_S)
                if not carrying.done() and await self._allowed(headers, found.workload_id) != found:
                    return False  # no longer: what is open ends
        finally:
            carrying.cancel()
        return True

    async def _allowed(
        self, headers: Mapping[bytes, bytes], workload_id: int
    ) -> workspaces.Workspace | None:
        """Return the workspace if its guest may still use it; asked anew every few seconds."""
        stay = _cookie(headers.get(b"cookie", b"").decode("latin1"))
        asked_s, found = self.rights.get(stay, (0.0, None))
        if time.monotonic() - asked_s >= RIGHT_S:
            guest = _guest_of(stay, salt=_STAY, within_s=STAY_S)
            found = None if guest is None else await database_sync_to_async(_find)(guest)
            if len(self.rights) > 1_000:
                self.rights.clear()
            self.rights[stay] = (time.monotonic(), found)
        return found if found is not None and found.workload_id == workload_id else None


def open_workspaces(application: Application) -> Door:
    """Return ``application`` behind the door of workspaces."""
    return Door(application)


def address_of(workload_id: int) -> str:
    """Return where a workspace is: at a host of its own, so that no other's page is of its origin."""
    base = urlsplit(str(settings.WORKSPACE_URL))
    return f"{base.scheme}://w{workload_id}.{base.netloc}{PREFIX}{workload_id}/"


def _find(guest: Guest) -> workspaces.Workspace | None:
    """Return the workspace of a guest who is signed in still and may work in its project."""
    user = User.objects.filter(pk=guest.user_id, is_active=True).first()
    if user is None or not is_open(user=user, mark=guest.session_mark):
        return None
    authority = authority_of(user=user, door="page")
    found = workspaces.find_workspace(visible=authority.visible, workload_id=guest.workload_id)
    if found is None or not authority.may(
        Action.WORK, project_id=found.project_id, department_id=found.department_id
    ):
        return None
    workspaces.note_use(workload_id=found.workload_id, now=timezone.now())
    return found


def _target(found: workspaces.Workspace) -> Target:
    secret = replica_tokens.workspace_secret_of(found.key)
    return Target(host=found.host, port=found.port, secret=secret)


def _is_own_host(scope: Any) -> bool:
    """Test whether a request is for the workspaces' name or one below it."""
    own, asked = urlsplit(str(settings.WORKSPACE_URL)).netloc, _host_of(dict(scope["headers"]))
    return bool(own) and (asked == own or asked.endswith(f".{own}"))


def _host_of(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"host", b"").decode("latin1").lower()


def _origin_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the host of the page that asks; empty where the browser names none."""
    origin = headers.get(b"origin", b"").decode("latin1")
    return urlsplit(origin).netloc.lower() or origin


def _id_in(path: str) -> int | None:
    parts = path.removeprefix(PREFIX).split("/", 1)
    if not path.startswith(PREFIX) or not parts[0].isdecimal() or len(parts[0]) > 18:
        return None
    return int(parts[0])


def _guest_of(value: str, *, salt: str, within_s: int) -> Guest | None:
    try:
        user_id, session_mark, workload_id = signing.loads(value, salt=salt, max_age=within_s)[:3]
    except (signing.BadSignature, ValueError):
        return None
    return Guest(user_id=user_id, session_mark=session_mark, workload_id=workload_id)


def _is_first(ticket: str) -> bool:
    used, _left_s = counting.count(key=f"ticket:{ticket[-40:]}", window_s=TICKET_S * 2)
    return used == 1


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _read(receive: Any) -> bytes:
    body, more = b"", True
    while more and len(body) < 8192:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _say(send: Any, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _start(send: Any, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
