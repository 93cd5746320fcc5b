"""The short readable log: follows the log files of the processes and keeps each bounded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

LARGEST_LOG_BYTES = 8 * 1024 * 1024
MOST_READ_BYTES = 256 * 1024
MOST_LINES = 12
WORTH_SHOWING = frozenset({"warning", "error", "critical"})
# Events at INFO that come every second or tell a person nothing.
TOO_COMMON = ("tick.", "uvicorn")
OWN_LOGGERS = ("scheduler", "access", "reports", "gateway", "dashboard")
STRUCTURE = frozenset({"at", "event", "level", "logger", "exception", "stack_info", "taskName"})


class LogFollower:
    """Reads what was appended since the last look."""

    def __init__(self, *, folder: Path, names: tuple[str, ...]) -> None:
        self._files = {name: folder / f"{name}.log" for name in names}
        self._offsets = {name: _size(file) for name, file in self._files.items()}

    def read_new(self) -> list[str]:
        """Return the new lines worth a person's look, as short sentences."""
        shown: list[str] = []
        for name, file in self._files.items():
            shown += self._read_lines(name, file)
            if _size(file) > LARGEST_LOG_BYTES:
                self._rotate(name, file)
        if len(shown) > MOST_LINES:
            cut = len(shown) - MOST_LINES
            shown = [*shown[:MOST_LINES], f"... and {cut} more lines in {file.parent}"]
        return shown

    def _read_lines(self, name: str, file: Path) -> Iterator[str]:
        size = _size(file)
        begin = self._offsets[name] if size >= self._offsets[name] else 0
        if size == begin:
            return
        with open(file, "rb") as log:
            log.seek(max(begin, size - MOST_READ_BYTES))
            data = log.read(MOST_READ_BYTES)
        whole, _, rest = data.rpartition(b"\n")
        self._offsets[name] = size - len(rest)
        for line in whole.decode("utf-8", "replace").splitlines():
            sentence = shorten(line, source=name)
            if sentence:
                yield sentence

    def _rotate(self, name: str, file: Path) -> None:
        """Keep one former file; the process goes on appending to the same one."""
        shutil.copyfile(file, f"{file}.1")
        with open(file, "r+b") as log:
            log.truncate(0)
        self._offsets[name] = 0


def shorten(line: str, *, source: str) -> str:
    """Return a log line of ``source`` as a short sentence; empty where it is not worth showing."""
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(record, dict):
        return ""
    level, event = str(record.get("level", "")), str(record.get("event", ""))
    is_own = str(record.get("logger", "")).split(".")[0] in OWN_LOGGERS
    if level not in WORTH_SHOWING and (not is_own or event.startswith(TOO_COMMON)):
        return ""
    if isinstance(record.get("said"), str):
        return str(record["said"])[:300]
    facts = [f"{key}={value}" for key, value in record.items() if key not in STRUCTURE]
    cause = str(record.get("exception", "")).strip().splitlines()[-1:]
    said = " ".join([event.splitlines()[0] if event else "", *sorted(facts), *cause])
    weight = f"{level} " if level in WORTH_SHOWING else ""
    return f"{source}: {weight}{said}"[:300]


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
