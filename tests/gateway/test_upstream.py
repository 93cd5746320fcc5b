"""Connections to replicas: kept while they may be, made anew where they may not."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstream import Broken, Refused, Upstream, head_of, send_body
from tests.gateway.conftest import free_port


class Server:
    """Answers each request with the same bytes, and counts connections."""

    def __init__(self, answer, *, closes=False, body=0):
        self.answer = answer
        self.closes = closes
        self.body = body
        self.connections = 0
        self.here = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for each in self.here:
            each.cancel()
        await asyncio.gather(*self.here, return_exceptions=True)

    def _meet(self, reader, writer):
        self.connections += 1
        self.here.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        try:
            while not reader.at_eof():
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(self.body)
                writer.write(self.answer)
                await writer.drain()
                if self.closes:
                    return
        finally:
            writer.close()


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


async def upload(upstream, server, chunks):
    """Send a body of ten bytes, and stop when the answer is there, as a gateway does."""
    connection = await upstream.connect("127.0.0.1", server.port)
    head = head_of(method="POST", target=b"/", host="x", headers=[(b"content-length", b"10")])
    connection.begin(b"POST", head, owes_body=True)
    sending = asyncio.create_task(send_body(connection=connection, chunks=chunks, is_chunked=False))
    await connection.wait_for_head()
    while await connection.read():
        pass
    sending.cancel()
    await asyncio.wait({sending})
    upstream.give_back("127.0.0.1", server.port, connection)


async def half_of_ten():
    yield b"12345"
    await asyncio.Event().wait()


async def broken_at_five():
    yield b"12345"
    raise OSError


async def test_what_is_missing_of_a_body_is_not_taken_from_the_next_request():
    """Of a body that ended early, or that the answer overtook, the connection is not used again."""
    async with Server(ANSWERS[0][1]) as server:
        upstream = Upstream()
        await upload(upstream, server, half_of_ten())
        assert await ask(upstream, server) == (200, b"hi")
        assert server.connections == 2
        upstream.close()
        await upload(upstream, server, broken_at_five())
        assert await ask(upstream, server) == (200, b"hi")
        assert server.connections == 4
        upstream.close()


async def test_a_connection_whose_body_was_sent_whole_is_kept():
    async def whole():
        yield b"12345"
        yield b"67890"

    async with Server(ANSWERS[0][1], body=10) as server:
        upstream = Upstream()
        await upload(upstream, server, whole())
        await upload(upstream, server, whole())
        assert server.connections == 1
        upstream.close()
