"""What a pod printed, kept here: the same files as of work on this machine, and what of it were marks.

The API gives output by whole seconds only. The time of the last line, how many lines of that time were
taken, and how much of the last one, say exactly where to go on; so it can be done by any process, again
and again. It outlives the pod.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from scheduler.engines import records
from scheduler.engines.records import MarkRecord
from scheduler.engines.shim.marks import FoundMark, MarkScanner
from scheduler.engines.shim.output import OutputLog
from scheduler.engines.shim.reports import ReportLog

#: A reader of pieces of output: those printed at this second or later; None: from the first on.
Fetch = Callable[[str | None], Iterator[bytes]]
_FORGOTTEN, _STATE, _PROGRESS = "forgotten", "state.json", "progress.json"
#: How much is taken in one go: the rest with the next.
GO_BYTES = 32 * 2**20
_WHOLE = -1


class Kept(TypedDict):
    """What is known of a replica beside what its pod says."""

    offset: int  # how much of the output is in the files
    second: int  # of the last line taken, with its part of a second
    nanosecond: int
    lines: int  # how many lines of that very time were taken
    taken: int  # bytes of the last one, where its end is still to come; else -1
    checkpoint: MarkRecord | None
    checkpoint_count: int
    checkpoint_error: str
    resumed: MarkRecord | None
    ready_at_s: float | None
    is_drained: bool  # it has ended, and all that it printed was taken


class Keeper:
    """The files of one replica. Nothing of them is kept in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> str:
        """Where the output lies."""
        return str(self._folder)

    @property
    def progress_path(self) -> str:
        """Where the reports of progress lie."""
        return str(self._folder / _PROGRESS)

    def prepare(self) -> None:
        """Make the folder."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def is_forgotten(self) -> bool:
        """Test whether this replica was here and was forgotten: it never runs again."""
        return (self._folder / _FORGOTTEN).exists()

    def note_forgotten(self) -> None:
        """Write down, for good, that the replica was here."""
        self.prepare()
        (self._folder / _FORGOTTEN).touch()

    def drop_output(self) -> None:
        """Remove the output. That the replica was here stays known."""
        for name in os.listdir(self._folder) if self._folder.exists() else ():
            if name != _FORGOTTEN:
                (self._folder / name).unlink()

    def state(self) -> Kept:
        """Return what is known now."""
        found: Kept | None = records.find_json(str(self._folder / _STATE))
        return found or Kept(
            offset=0,
            second=0,
            nanosecond=0,
            lines=0,
            taken=_WHOLE,
            checkpoint=None,
            checkpoint_count=0,
            checkpoint_error="",
            resumed=None,
            ready_at_s=None,
            is_drained=False,
        )

    def change(self, **values: object) -> Kept:
        """Write down what has become known; return all of it."""
        self.prepare()
        with self._locked():
            state = self.state()
            state.update(values)  # type: ignore[typeddict-item]
            self._save(state)
            return state

    def catch_up(self, fetch: Fetch, *, limit_mib: int, note: str = "") -> Kept:
        """Take what was printed since the last time, then add a line of our own, if any."""
        self.prepare()
        with self._locked():
            state = self.state()
            self._cut_back(state["offset"])
            taking = _Taking(self._folder, state, limit_bytes=limit_mib * 2**20)
            try:
                taking.take(fetch)
            finally:  # what came before the server fell silent is taken
                if note:
                    taking.add(f"{taking.line_break}{note}\n".encode())
                taking.close()
                self._save(state)
            return state

    def _save(self, state: Kept) -> None:
        records.write_json(str(self._folder / _STATE), state)

    def _cut_back(self, offset: int) -> None:
        """Remove what was written after the state was: it comes again, the same."""
        for name in os.listdir(self._folder):
            start = int(name[:-4]) if name.endswith(".log") else None
            if start is None:
                continue
            path = self._folder / name
            if start >= offset:
                path.unlink()
            elif start + path.stat().st_size > offset:
                os.truncate(path, offset - start)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder.parent / f"{self._folder.name}.lock", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class _Taking:
    """One go at the output, from where the state says."""

    def __init__(self, folder: Path, state: Kept, *, limit_bytes: int) -> None:
        self._state = state
        self._log = OutputLog(directory=str(folder), limit_bytes=limit_bytes)
        self._reports = ReportLog(path=str(folder / _PROGRESS))
        #: Output and errors are written side by side: a line may lie behind one of a later time.
        self._least = self._from = (state["second"], state["nanosecond"])
        self._met = 0  # lines of the time of the last one
        self._budget = GO_BYTES
        self.line_break = "\n" if state["taken"] > 0 else ""

    def take(self, fetch: Fetch) -> None:
        second = self._state["second"]
        since = None if not second else datetime.fromtimestamp(second).astimezone().isoformat()
        rest = b""
        with contextlib.closing(_closing(fetch(since))) as pieces:
            for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._take_line(line, is_whole=True)
                if self._budget <= 0:
                    return
        if rest:
            self._take_line(rest, is_whole=False)

    def add(self, data: bytes) -> None:
        """Write to the output what is ours or the replica's."""
        self._log.write(data)
        self._state["offset"] += len(data)

    def close(self) -> None:
        self._log.close()
        self._reports.save(force=True)

    def _take_line(self, line: bytes, *, is_whole: bool) -> None:
        stamp, _, text = line.partition(b" ")
        at = read_time(stamp)
        if at is None or at < self._least:
            return
        if at < self._from:
            self._write(text, at, is_whole=is_whole)
            return
        if at > self._from:
            self._from, self._met = at, 0
            self._state["lines"] = 0
        self._met += 1
        begun = 0
        if self._met <= self._state["lines"]:
            is_last = self._met == self._state["lines"]
            begun = self._state["taken"]
            if not is_last or begun == _WHOLE:
                return
        self._state["second"], self._state["nanosecond"] = at
        self._state["lines"] = self._met
        self._state["taken"] = _WHOLE if is_whole else len(text)
        self._write(text, at, begun=begun, is_whole=is_whole)

    def _write(self, text: bytes, at: tuple[int, int], *, begun: int = 0, is_whole: bool) -> None:
        self.line_break = "" if is_whole else "\n"
        data = text[begun:] + (b"\n" if is_whole else b"")
        self._budget -= len(data)
        self.add(data)
        if is_whole:
            self._note_marks(text, at)

    def _note_marks(self, text: bytes, at: tuple[int, int]) -> None:
        at_s = at[0] + at[1] / 1e9
        for found in MarkScanner().feed(text + b"\n"):
            if not isinstance(found, FoundMark):
                self._reports.add({**found, "at_s": at_s})
                continue
            record = MarkRecord({**found.record, "at_s": at_s})
            match found.kind:
                case "resumed":
                    self._state["resumed"] = record
                case "failed":
                    self._state["checkpoint_error"] = found.error
                case "checkpoint":
                    self._state["checkpoint"] = record
                    self._state["checkpoint_count"] += 1
                    self._state["checkpoint_error"] = ""


def read_time(stamp: bytes) -> tuple[int, int] | None:
    """Return seconds since 1970 and nanoseconds of ``2026-12-01T11:50:00.123456789Z``; None for others."""
    text = stamp.decode("ascii", errors="replace")
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if rest else ""
    try:
        at = datetime.fromisoformat(whole + zone)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    return int(at.timestamp()), int(digits.ljust(9, "0")[:9] or "0")


def _closing(pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Give what there is, and end the answer where nobody reads on."""
    yield from pieces
