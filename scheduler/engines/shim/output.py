"""The log of one replica: begin and end are kept, the middle goes, the size never passes a limit.

Files are named by the offset of their first byte in the whole output, so a reader sees from the
names alone what was cut. Half of the limit is for the begin, half for the last four pieces. Beside them
a file says when output came: an offset and a time a line, at most one a second.
"""

from __future__ import annotations

import os
import time

_PIECES = 4
_TIMES = "times.txt"
_MOST_TIMES = 20_000
_TIMES_APART_S = 1.0
_RETRY_S = 1.0


class OutputLog:
    """Takes output of any size and kind. A full volume loses output, never the workload."""

    def __init__(self, *, directory: str, limit_bytes: int) -> None:
        self._directory = directory
        self._begin_bytes = max(limit_bytes // 2, 1)
        self._piece_bytes = max(limit_bytes // (2 * _PIECES), 1)
        self._handle: int | None = None
        self._room = 0
        self._retry_at_s = 0.0
        self.disk_full = False
        self._offset = self._find_end()
        self._times_path = os.path.join(directory, _TIMES)
        self._noted_at_s = 0.0
        self._at_line_begin = True
        self._noted = _count_lines(self._times_path)

    @property
    def line_break(self) -> str:
        """What a line of our own needs before it."""
        return "" if self._at_line_begin else "\n"

    def write(self, data: bytes) -> None:
        """Append, and drop what has become the middle."""
        self._note_time()
        self._at_line_begin = data.endswith(b"\n")
        view = memoryview(data)
        while view:
            if self._handle is None and not self._open_piece():
                self._offset += len(view)  # lost: the next piece's name shows the gap
                return
            assert self._handle is not None
            try:
                written = os.write(self._handle, view[: self._room])
            except OSError:
                self._fail()
                continue
            view = view[written:]
            self._offset += written
            self._room -= written
            if self._room == 0:
                self.close()

    def close(self) -> None:
        """Close the piece at hand; a further write opens the next."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _note_time(self) -> None:
        """Write down that what follows comes now. Of too many every second goes."""
        if 0 <= time.time() - self._noted_at_s < _TIMES_APART_S:
            return
        self._noted_at_s = time.time()
        try:
            with open(self._times_path, "a+", encoding="ascii") as file:
                file.write(f"{self._offset} {int(self._noted_at_s * 1000)}\n")
                self._noted += 1
                if self._noted > _MOST_TIMES:
                    file.seek(0)
                    kept = file.readlines()[::2]
                    file.truncate(0)
                    file.writelines(kept)
                    self._noted = len(kept)
        except OSError:  # a full volume: the lines have no time of their own then
            return

    def _open_piece(self) -> bool:
        if time.monotonic() < self._retry_at_s:
            return False
        is_begin = self._offset < self._begin_bytes
        name = os.path.join(self._directory, f"{self._offset:020d}.log")
        try:
            self._drop_middle()
            self._handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            self._fail()
            return False
        self._room = self._begin_bytes - self._offset if is_begin else self._piece_bytes
        self.disk_full = False
        return True

    def _fail(self) -> None:
        self.close()
        self.disk_full = True
        self._retry_at_s = time.monotonic() + _RETRY_S

    def _drop_middle(self) -> None:
        later = [
            name for name in _list_pieces(self._directory) if int(name[:-4]) >= self._begin_bytes
        ]
        for name in later[: max(len(later) - _PIECES + 1, 0)]:
            os.unlink(os.path.join(self._directory, name))

    def _find_end(self) -> int:
        names = _list_pieces(self._directory)
        if not names:
            return 0
        return int(names[-1][:-4]) + os.path.getsize(os.path.join(self._directory, names[-1]))


def _count_lines(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return sum(1 for _line in file)
    except FileNotFoundError:
        return 0


def _list_pieces(directory: str) -> list[str]:
    return sorted(name for name in os.listdir(directory) if name.endswith(".log"))
