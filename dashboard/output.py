"""The last lines of what a replica printed, read from its engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from scheduler.engines.base import Engine, EngineError, LogChunk, ReplicaKey
from scheduler.tick import engine_room

TAIL_BYTES = 64 * 1024
PIECE_BYTES = 1024 * 1024


class Printing(Protocol):
    """One attempt of one replica, whose output is kept by its engine."""

    @property
    def id(self) -> int:
        """The replica's row."""

    @property
    def attempt(self) -> int:
        """Its run."""

    @property
    def engine(self) -> str:
        """Where it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of an output. ``trouble``: why it can't be read now."""

    text: str
    size_bytes: int
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an output, from ``offset`` to before ``next_offset``."""

    text: str
    offset: int
    next_offset: int
    size_bytes: int
    cut_from: int
    cut_to: int
    times: tuple[tuple[int, int], ...]


def read_piece(replica: Printing, *, offset: int | None) -> Piece:
    """Return output from ``offset`` on, or the end of it where that is None.

    Raises:
        EngineError: it can't be read now.
    """
    key = ReplicaKey(replica_id=replica.id, attempt=replica.attempt)
    chunk = engine_room.engine(replica.engine).read_log(key, offset=offset, limit_bytes=TAIL_BYTES)
    return Piece(
        text=chunk.text,
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        size_bytes=chunk.size_bytes,
        cut_from=chunk.cut_from,
        cut_to=chunk.cut_to,
        times=chunk.times,
    )


def read_all(replica: Printing) -> Iterator[bytes]:
    """Give all that is kept of an output now, in pieces, with a line where the middle was cut.

    It ends where the output ended when its first piece was read: of work that prints faster than a
    reader takes it there would be no end.

    Raises:
        EngineError: at once, if it can't be read now; it may also break off later.
    """
    key = ReplicaKey(replica_id=replica.id, attempt=replica.attempt)
    engine = engine_room.engine(replica.engine)
    return _read_on(engine, key, engine.read_log(key, offset=0, limit_bytes=PIECE_BYTES))


def _read_on(engine: Engine, key: ReplicaKey, first: LogChunk) -> Iterator[bytes]:
    chunk, offset, end = first, 0, first.size_bytes
    while chunk.data and chunk.offset < end:
        if chunk.offset > offset:
            yield f"\n--- {chunk.offset - offset} bytes were cut here ---\n".encode()
        yield chunk.data[: end - chunk.offset]
        offset = chunk.next_offset
        if offset >= end:
            return
        chunk = engine.read_log(key, offset=offset, limit_bytes=PIECE_BYTES)


def read_tail(replica: Printing) -> Tail:
    """Return the last lines of a replica's output."""
    key = ReplicaKey(replica_id=replica.id, attempt=replica.attempt)
    try:
        chunk = engine_room.engine(replica.engine).read_log(
            key, offset=None, limit_bytes=TAIL_BYTES
        )
    except EngineError as error:
        return Tail(text="", size_bytes=0, trouble=str(error))
    text = chunk.text
    if chunk.offset > 0:
        # The first line is a piece of one.
        text = text.partition("\n")[2]
    return Tail(text=text, size_bytes=chunk.size_bytes)
