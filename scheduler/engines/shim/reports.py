"""Keeps the latest reports of progress that a replica printed, in a file of bounded size."""

from __future__ import annotations

import time

from scheduler.engines import records
from scheduler.engines.records import ProgressRecord

_MOST = 120
#: Of reports that come closer than this, the last stands for all.
_CLOSEST_S = 0.1
_SAVE_S = 1.0


class ReportLog:
    """Takes reports as fast as they come. What was there before its supervisor changed stays."""

    def __init__(self, *, path: str) -> None:
        self._path = path
        self._kept: list[ProgressRecord] = records.find_json(path) or []
        self._number = self._kept[-1]["number"] if self._kept else 0
        self._is_saved = True
        self._save_at_s = 0.0

    def add(self, report: ProgressRecord) -> None:
        """Take one report; it gets the next number."""
        self._number += 1
        report["number"] = self._number
        last = self._kept[-1] if self._kept else None
        if last is not None and 0 <= report["at_s"] - last["at_s"] < _CLOSEST_S:
            self._kept[-1] = _both(last, report)
        else:
            self._kept = [*self._kept[1 - _MOST :], report]
        self._is_saved = False

    def save(self, *, force: bool = False) -> None:
        """Write them down if there is something new, at most so often."""
        now_s = time.monotonic()
        if self._is_saved or not (force or now_s >= self._save_at_s):
            return
        self._save_at_s = now_s + _SAVE_S
        try:
            records.write_json(self._path, self._kept)
        except OSError:  # a full volume: they stay in memory and are tried again
            return
        self._is_saved = True


def _both(before: ProgressRecord, after: ProgressRecord) -> ProgressRecord:
    """Return two reports of one moment as one: what the later does not say stays, its time too."""
    return ProgressRecord(
        number=after["number"],
        at_s=before["at_s"],
        step=before["step"] if after["step"] is None else after["step"],
        total=before["total"] if after["total"] is None else after["total"],
        epoch=before["epoch"] if after["epoch"] is None else after["epoch"],
        metrics={**before["metrics"], **after["metrics"]},
    )
