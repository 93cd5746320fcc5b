"""Connections to replicas: kept while they may be, made anew where they may not."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstream import Broken, Refused, Upstream, head_of
from tests.gateway.conftest import free_port


class Server:
    """Answers each request with the same bytes, and counts connections."""

    def __init__(self, answer, *, closes=False):
        self.answer = answer
        self.closes = closes
        self.connections = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(self.answer)
            await writer.drain()
            if self.closes:
                writer.close()
                return


async def ask(upstream, server, method="GET"):
    connection = await upstream.connect("127.0.0.1", server.port)
    head = head_of(method=method, target=b"/", host="x", headers=[])
    connection.begin(method.encode(), head)
    await connection.wait_for_head()
    body = b""
    while part := await connection.read():
        body += part
    upstream.give_back("127.0.0.1", server.port, connection)
    return connection.status, body


ANSWERS = [
    ("with a length", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 1),
    ("in chunks", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 1),
    (
        "said to be the last",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        3,
    ),
]


@pytest.mark.parametrize(("name", "answer", "connections"), ANSWERS, ids=[a[0] for a in ANSWERS])
async def test_a_connection_is_kept_where_it_may_be(name, answer, connections):
    async with Server(answer) as server:
        upstream = Upstream()
        assert [await ask(upstream, server) for _ in range(3)] == [(200, b"hi")] * 3
        assert server.connections == connections
        upstream.close()


async def test_an_answer_that_ends_with_its_connection():
    async with Server(b"HTTP/1.1 200 OK\r\n\r\nhi", closes=True) as server:
        assert await ask(Upstream(), server) == (200, b"hi")


async def test_an_answer_that_is_cut_is_no_answer():
    async with Server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", closes=True) as server:
        with pytest.raises(Broken):
            await ask(Upstream(), server)


async def test_nobody_there():
    with pytest.raises(Refused):
        await Upstream().connect("127.0.0.1", free_port())


async def test_an_answer_to_head_has_no_body():
    async with Server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n") as server:
        assert await ask(Upstream(), server, "HEAD") == (200, b"")
