"""Answers of the server: writes of one turn go out as one, in order, and nothing is held too long."""

from __future__ import annotations

import asyncio

from gateway.corked import MOST_HELD_BYTES, CorkedTransport


class Written:
    """A transport that keeps what it is told."""

    def __init__(self):
        self.calls = []

    def write(self, data):
        self.calls.append(data)

    def close(self):
        self.calls.append("closed")

    def is_closing(self):
        return "closed" in self.calls


async def test_writes_of_one_turn_go_out_as_one():
    under = Written()
    corked = CorkedTransport(under, asyncio.get_running_loop())

    corked.write(b"head ")
    corked.write(b"part")
    before = list(under.calls)
    await asyncio.sleep(0)
    corked.write(b"next")
    await asyncio.sleep(0)

    assert before == []
    assert under.calls == [b"head part", b"next"]


async def test_more_than_a_little_is_written_at_once():
    under = Written()
    corked = CorkedTransport(under, asyncio.get_running_loop())

    corked.write(b"head ")
    corked.write(b"x" * MOST_HELD_BYTES)

    assert under.calls == [b"head " + b"x" * MOST_HELD_BYTES]


async def test_what_is_held_goes_out_before_the_end():
    under = Written()
    corked = CorkedTransport(under, asyncio.get_running_loop())

    corked.write(b"last")
    corked.close()
    await asyncio.sleep(0)

    assert under.calls == [b"last", "closed"]
    assert corked.is_closing()
