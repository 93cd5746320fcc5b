"""What one ``up`` leaves for the next: a lock, and who was started."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from dashboard.launch.processes import Identity, start_of


class RunState:
    """The files ``up.lock`` and ``up.json`` in the data folder's ``run``."""

    def __init__(self, *, data: Path) -> None:
        self._folder = data / "run"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._folder / "up.json"
        self._lock: IO[str] | None = None

    def take(self) -> bool:
        """Take the lock for as long as this process lives; False where another holds it."""
        lock = open(self._folder / "up.lock", "a", encoding="ascii")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        return True

    def read_running(self) -> tuple[int, str]:
        """Return the pid and the address of the ``up`` that holds the lock."""
        state = self._read()
        return int(str(state.get("pid", 0))), str(state.get("url", ""))

    def read_leftovers(self) -> list[Identity]:
        """Return the processes of an ``up`` that did not end its children itself."""
        children = self._read().get("children")
        if not isinstance(children, dict):
            return []
        return [Identity(pid=int(pid), started=str(begun)) for pid, begun in children.values()]

    def write(self, *, url: str, children: Mapping[str, Identity]) -> None:
        state = {
            "pid": os.getpid(),
            "started": start_of(os.getpid()),
            "url": url,
            "children": {name: (who.pid, who.started) for name, who in children.items()},
        }
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(state), encoding="utf-8")
        draft.replace(self._file)

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)

    def _read(self) -> dict[str, object]:
        if not self._file.exists():
            return {}
        try:
            state: dict[str, object] = json.loads(self._file.read_text(encoding="utf-8"))
        except ValueError:
            return {}  # cut off by a full disk; there is nobody to be found in it
        return state
