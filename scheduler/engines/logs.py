"""Reads a replica's log in pieces, without ever loading it whole."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

from scheduler.engines.base import LogChunk

_LONGEST_CHARACTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    path: str
    start: int
    end: int


def read_chunk(*, directory: str, offset: int | None, limit_bytes: int) -> LogChunk:
    """Return output from ``offset`` on, or the last ``limit_bytes``; empty where there is none.

    An offset inside what was cut moves on to the next byte that is kept. A piece never ends inside
    a character, unless the output does.
    """
    pieces = _list_pieces(directory)
    size = pieces[-1].end if pieces else 0
    wanted = max(size - limit_bytes, 0) if offset is None else offset
    cut_from, cut_to = _find_cut(pieces)
    piece = next((piece for piece in pieces if piece.end > wanted), None)
    if piece is None:
        return LogChunk(
            data=b"",
            offset=size,
            next_offset=size,
            size_bytes=size,
            cut_from=cut_from,
            cut_to=cut_to,
        )
    start = max(wanted, piece.start)
    data = b""
    while piece is not None and len(data) < limit_bytes:
        data += _read(piece, start=start + len(data), limit=limit_bytes - len(data))
        here = start + len(data)
        piece = next((other for other in pieces if other.start == here and other.end > here), None)
    if start + len(data) < size:
        data = _until_whole_character(data)
    return LogChunk(
        data=data,
        offset=start,
        next_offset=start + len(data),
        size_bytes=size,
        cut_from=cut_from,
        cut_to=cut_to,
        times=_times(directory, start=start, end=start + len(data)),
    )


def _times(directory: str, *, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return when output from ``start`` to before ``end`` came; the first entry may lie before it."""
    try:
        with open(os.path.join(directory, "times.txt"), encoding="ascii") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return ()
    known = [(int(row[0]), int(row[1])) for row in rows if len(row) == 2]
    before = [each for each in known if each[0] <= start][-1:]
    return (*before, *(each for each in known if start < each[0] < end))


def _list_pieces(directory: str) -> list[_Piece]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
    except FileNotFoundError:
        return []
    pieces = []
    for name in names:
        path = os.path.join(directory, name)
        try:
            size = os.path.getsize(path)
        except FileNotFoundError:  # cut away since we listed it
            continue
        pieces.append(_Piece(path=path, start=int(name[:-4]), end=int(name[:-4]) + size))
    return pieces


def _find_cut(pieces: list[_Piece]) -> tuple[int, int]:
    for before, after in itertools.pairwise(pieces):
        if after.start > before.end:
            return before.end, after.start
    return 0, 0


def _read(piece: _Piece, *, start: int, limit: int) -> bytes:
    try:
        with open(piece.path, "rb") as file:
            file.seek(start - piece.start)
            return file.read(min(limit, piece.end - start))
    except FileNotFoundError:
        return b""


def _until_whole_character(data: bytes) -> bytes:
    """Return ``data`` without the begin of a UTF-8 character whose end is missing."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 == 0x80:
            continue
        needs = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
        return data[:-back] if needs > back and len(data) > back else data
    return data
