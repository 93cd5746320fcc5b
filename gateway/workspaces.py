"""Carries what a browser asks of a workspace to its process and back: requests, streams, sockets.

Who may is asked before (``dashboard/workspace_door.py``). The secret by which the workspace knows us is
added here and never reaches the browser.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Subprotocol

from gateway.errors import GatewayError
from gateway.exchange import Exchange
from gateway.upstream import Broken, Connection, Refused, Upstream, head_of, send_body

PREFIX = "/workspaces/"
#: Of our own cookies a workspace gets none.
_OWN_COOKIES = b"tidegate"
_NOT_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect authorization cookie".split()
)
_NOT_BACK = frozenset(
    b"connection keep-alive proxy-authenticate proxy-connection te trailer transfer-encoding upgrade "
    b"date server strict-transport-security service-worker-allowed clear-site-data".split()
)
MOST_MESSAGE_BYTES = 64 * 1024 * 1024


class NotThere(GatewayError):
    """The workspace's process takes no connection, or broke one off."""

    status = 502


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a workspace listens, and the secret that it was started with."""

    host: str
    port: int
    secret: str


async def carry(*, exchange: Exchange, target: Target, upstream: Upstream) -> None:
    """Pass one request on and its answer back, part by part.

    Raises:
        NotThere: no answer was begun.
    """
    try:
        connection = await upstream.connect(target.host, target.port)
    except Refused as refused:
        raise NotThere("The workspace does not answer.") from refused
    path = exchange.raw_path + (b"?" + exchange.query if exchange.query else b"")
    headers = _headers_on(exchange.headers, target)
    length = exchange.header(b"content-length")
    body = exchange.whole_body()
    if body is not None:
        headers.append((b"content-length", str(len(body)).encode()))
    elif length is not None:
        headers.append((b"content-length", length))
    else:
        headers.append((b"transfer-encoding", b"chunked"))
    host = (exchange.header(b"host") or b"localhost").decode("latin1")
    head = head_of(method=exchange.method, target=path, host=host, headers=headers)
    connection.begin(exchange.method.encode(), head + (body or b""), owes_body=body is None)
    sender = None
    if body is None:
        sending = send_body(
            connection=connection, chunks=exchange.chunks(), is_chunked=length is None
        )
        sender = asyncio.create_task(sending)
    try:
        await _answer(exchange, connection)
    except Broken as error:
        connection.close()
        if not exchange.answering:
            raise NotThere("The workspace broke off before it answered.") from error
        raise
    except BaseException:
        connection.close()
        raise
    finally:
        if sender is not None:
            sender.cancel()
        upstream.give_back(target.host, target.port, connection)


async def _answer(exchange: Exchange, connection: Connection) -> None:
    await connection.wait_for_head()
    headers = [
        (name, value)
        for name, value in connection.headers
        if name not in _NOT_BACK
        and not (name == b"set-cookie" and value.strip().startswith(_OWN_COOKIES))
    ]
    await exchange.begin_answer(connection.status, headers)
    while True:
        data = await connection.read()
        if connection.complete:
            await exchange.end_answer(data)
            return
        await exchange.send_part(data)


async def carry_socket(*, scope: Any, receive: Any, send: Any, target: Target) -> None:
    """Join a browser's socket and one to the workspace until either ends."""
    await receive()  # websocket.connect
    query = scope["query_string"].decode("latin1")
    address = f"ws://{target.host}:{target.port}{scope['raw_path'].decode('latin1')}"
    headers = dict(scope["headers"])
    try:
        inner = await connect(
            address + (f"?{query}" if query else ""),
            additional_headers=[
                (name.decode("latin1"), value.decode("latin1"))
                for name, value in _headers_on(scope["headers"], target)
                if not name.startswith(b"sec-websocket-")
            ],
            subprotocols=[Subprotocol(each) for each in scope.get("subprotocols", ())] or None,
            user_agent_header=headers.get(b"user-agent", b"").decode("latin1") or None,
            max_size=MOST_MESSAGE_BYTES,
            open_timeout=10,
            ping_interval=None,
            compression=None,
            proxy=None,
            host=target.host,  # a redirect to another place is refused
            port=target.port,
        )
    except (OSError, TimeoutError, ValueError, WebSocketException):
        await send({"type": "websocket.close", "code": 4502})
        return
    async with inner:
        await send({"type": "websocket.accept", "subprotocol": inner.subprotocol})
        ways = [
            asyncio.create_task(_to_workspace(receive, inner)),
            asyncio.create_task(_to_browser(send, inner)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
    with contextlib.suppress(RuntimeError):  # the browser closed it first
        await send({"type": "websocket.close", "code": inner.close_code or 1000})


async def _to_workspace(receive: Any, inner: ClientConnection) -> None:
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        data = message.get("bytes")
        try:
            await inner.send(message["text"] if data is None else data)
        except ConnectionClosed:
            return


async def _to_browser(send: Any, inner: ClientConnection) -> None:
    try:
        async for data in inner:
            key = "text" if isinstance(data, str) else "bytes"
            await send({"type": "websocket.send", key: data})
    except ConnectionClosed:
        return


def _headers_on(headers: Any, target: Target) -> list[tuple[bytes, bytes]]:
    """Return a request's headers as the workspace gets them: without our cookies, with its secret."""
    passed = [(name, value) for name, value in headers if name not in _NOT_ON]
    cookies = b"; ".join(
        part.strip()
        for name, value in headers
        if name == b"cookie"
        for part in value.split(b";")
        if not part.strip().startswith(_OWN_COOKIES)
    )
    if cookies:
        passed.append((b"cookie", cookies))
    passed.append((b"authorization", b"token " + target.secret.encode()))
    return passed
