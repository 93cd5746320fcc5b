"""Finds the lines by which a workload marks a checkpoint or a resume in its output.

``TIDEGATE {"checkpoint": true, "step": 21, "epoch": 21, "elapsed_s": 63.0, "best": 0.8223,
"bytes": 5120}``, or with ``"resumed": true``, or, where a save failed, ``"checkpoint": false`` and an
``"error"``. Anything else passes by unread.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any, Literal, NamedTuple

from scheduler.engines.records import MarkRecord

_PREFIX = b"TIDEGATE {"
_LONGEST = 16 * 1024
_MOST = 2**53
_DIGITS = 40
_ERROR_CHARS = 300


class FoundMark(NamedTuple):
    """One mark, of which kind it is, and for a failed save what went wrong."""

    kind: Literal["checkpoint", "resumed", "failed"]
    record: MarkRecord
    error: str = ""


class MarkScanner:
    """Reads output in pieces of any size. Holds at most one line of bounded length."""

    def __init__(self) -> None:
        self._begun = b""
        self._inside_long_line = False

    def feed(self, data: bytes) -> list[FoundMark]:
        """Return the marks whose lines end in this piece."""
        *lines, rest = data.split(b"\n")
        found = []
        for line in lines:
            if not self._inside_long_line and (mark := _find_mark(self._begun + line)):
                found.append(mark)
            self._begun, self._inside_long_line = b"", False
        self._keep(rest)
        return found

    def _keep(self, rest: bytes) -> None:
        if self._inside_long_line:
            return
        begun = self._begun + rest[: _LONGEST + 1]
        may_be_mark = begun.startswith(_PREFIX) or _PREFIX.startswith(begun)
        self._inside_long_line = len(begun) > _LONGEST or not may_be_mark
        self._begun = b"" if self._inside_long_line else begun


def _find_mark(line: bytes) -> FoundMark | None:
    if not line.startswith(_PREFIX) or len(line) > _LONGEST:
        return None
    try:
        value = json.loads(line[len(_PREFIX) - 1 :], parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):  # not JSON, or not UTF-8: the workload's own text
        return None
    kind = _kind(value)
    if kind is None:
        return None
    record = MarkRecord(
        at_s=time.time(),
        step=_whole(value.get("step")),
        epoch=_whole(value.get("epoch")),
        elapsed_s=_number(value.get("elapsed_s")),
        best=_number(value.get("best")),
        size_bytes=_whole(value.get("bytes")),
    )
    error = str(value.get("error", "unknown"))[:_ERROR_CHARS] if kind == "failed" else ""
    return FoundMark(kind=kind, record=record, error=error)


def _kind(value: dict[str, Any]) -> Literal["checkpoint", "resumed", "failed"] | None:
    if value.get("resumed") is True:
        return "resumed"
    match value.get("checkpoint"):
        case True:
            return "checkpoint"
        case False:
            return "failed"
        case _:
            return None


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value < _MOST else None


def _number(value: Any) -> str | int | None:
    if not isinstance(value, str):
        return _whole(value)
    try:  # json gave the text of a number with a point
        fits = len(value) <= _DIGITS and math.isfinite(float(value))
    except ValueError:
        return None
    return value if fits else None
