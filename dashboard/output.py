"""The last lines of what a replica printed, read from its engine."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engines.base import EngineError, ReplicaKey
from scheduler.queries.workloads import ReplicaRow
from scheduler.tick import engine_room

TAIL_BYTES = 64 * 1024


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


def read_piece(replica: ReplicaRow, *, offset: int | None) -> Piece:
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
    )


def read_tail(replica: ReplicaRow) -> Tail:
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
