"""Rolled-up figures as bytes: the hours of a day or the days of a month, exact.

Little-endian 64-bit integers, column by column; a first one says by its bits which columns follow.
Columns that could outgrow 64 bits are kept in two parts. Columns of zeros are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from scheduler.core.usage import NAMES, Figures

PART_BITS = 48
_PART = (1 << PART_BITS) - 1
#: Figures in units so small that an hour of a large cluster needs more than 64 bits.
_WIDE = frozenset({"memory", "memory_used", "cost", "idle_cost"})
#: (index of the figure, whether these are its high bits), in the order of the columns.
_COLUMNS = tuple(
    (at, high)
    for at, name in enumerate(NAMES)
    for high in ((False, True) if name in _WIDE else (False,))
)


def encode(*, rows: Sequence[Figures]) -> bytes:
    """Return rows as bytes; every row is one cell of each column."""
    values = [row.values() for row in rows]
    mask = 0
    columns: list[int] = []
    for number, (at, high) in enumerate(_COLUMNS):
        column = [_part(at, row[at], high) for row in values]
        if any(column):
            mask |= 1 << number
            columns += column
    return struct.pack(f"<{1 + len(columns)}q", mask, *columns)


def decode(*, cells: bytes, count: int) -> list[Figures]:
    """Return the ``count`` rows that were encoded."""
    return [
        Figures(**dict(zip(NAMES, sums, strict=True)))
        for sums in add_up(cells=cells, count=count, ranges=[(at, at + 1) for at in range(count)])
    ]


def add_up(*, cells: bytes, count: int, ranges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the sums of figures, in the order of ``NAMES``, over ranges [first, last) of cells."""
    values = struct.unpack(f"<{len(cells) // 8}q", cells)
    mask = values[0]
    sums = [[0] * len(NAMES) for _ in ranges]
    offset = 1
    for number, (at, high) in enumerate(_COLUMNS):
        if not mask >> number & 1:
            continue
        for row, (first, last) in zip(sums, ranges, strict=True):
            found = sum(values[offset + first : offset + last])
            row[at] += found << PART_BITS if high else found
        offset += count
    return sums


def _part(at: int, value: int, high: bool) -> int:  # noqa: FBT001
    if NAMES[at] not in _WIDE:
        return value
    return value >> PART_BITS if high else value & _PART
