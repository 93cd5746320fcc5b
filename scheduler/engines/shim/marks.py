"""Finds the lines by which a workload marks a checkpoint, a resume or its progress in its output.

``TIDEGATE {"checkpoint": true, "step": 21, "epoch": 21, "elapsed_s": 63.0, "best": 0.8223,
"bytes": 5120}``, or with ``"resumed": true``, or, where a save failed, ``"checkpoint": false`` and an
``"error"``; or ``TIDEGATE {"progress": true, "step": 21, "total": 90, "metrics": {"loss": 0.31}}``.
Anything else passes by unread.
"""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any, Literal, NamedTuple

from scheduler.engines.records import MarkRecord, ProgressRecord

_PREFIX = b"TIDEGATE {"
_LONGEST = 16 * 1024
_MOST = 2**53
_DIGITS = 40
_ERROR_CHARS = 300
_METRICS = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,63}")


class FoundMark(NamedTuple):
    """One mark, of which kind it is, and for a failed save what went wrong."""

    kind: Literal["checkpoint", "resumed", "failed"]
    record: MarkRecord
    error: str = ""


Found = FoundMark | ProgressRecord


class MarkScanner:
    """Reads output in pieces of any size. Holds at most one line of bounded length."""

    def __init__(self) -> None:
        self._begun = b""
        self._inside_long_line = False

    def feed(self, data: bytes) -> list[Found]:
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


def _find_mark(line: bytes) -> Found | None:
    if not line.startswith(_PREFIX) or len(line) > _LONGEST:
        return None
    try:
        value = json.loads(line[len(_PREFIX) - 1 :], parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):  # not JSON, or not UTF-8: the workload's own text
        return None
    kind = _kind(value)
    if kind is None:
        return _progress(value) if value.get("progress") is True else None
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


def _progress(value: dict[str, Any]) -> ProgressRecord | None:
    """Return a report of progress, without what of it can't be read; None where nothing is left."""
    given = value.get("metrics")
    pairs = given.items() if isinstance(given, dict) else ()
    read = ((name, _finite(each)) for name, each in pairs if _NAME.fullmatch(name))
    metrics = dict([(name, each) for name, each in read if each is not None][:_METRICS])
    step, total, epoch = (_whole(value.get(name)) for name in ("step", "total", "epoch"))
    if step is None and total is None and epoch is None and not metrics:
        return None
    return ProgressRecord(
        number=0, at_s=time.time(), step=step, total=total, epoch=epoch, metrics=metrics
    )


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None  # json gave the text of a number with a point, and an int of one without
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


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
