"""A lock by file that the kernel lets go of when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AGAIN_AFTER_S = 0.1


class Held(Exception):
    """Another process holds it."""


@contextmanager
def hold(path: Path, *, within_s: float = 0.0) -> Iterator[int]:
    """Hold the lock for the block; give its descriptor. A child that inherits it holds the lock on.

    Raises:
        Held: another process has it, also after ``within_s``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + within_s
    with open(path, "ab") as file:
        while not _take(file.fileno()):
            if time.monotonic() >= deadline:
                raise Held(str(path))
            time.sleep(_AGAIN_AFTER_S)
        yield file.fileno()


def is_held(path: Path) -> bool:
    """Test whether a process has it now. It is taken for an instant to find out."""
    try:
        with hold(path):
            return False
    except Held:
        return True


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
