"""Checkpoints that survive a kill at any moment: written aside, synced, renamed; the one before kept.

A file is a SHA-256 of the rest, then the rest. What does not match is treated as not there, and the
one before is used. A later attempt of the same workload fences off an earlier one that still lives.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

_DIGEST_BYTES = 32
_PIECES = 16


class Fenced(Exception):
    """A later attempt of this workload has begun: this one must not write any more."""


class Checkpoints:
    """The checkpoint directory of one workload, seen by one of its attempts."""

    def __init__(self, directory: Path, *, attempt: int) -> None:
        self._directory = directory
        self._newest = directory / "newest.ckpt"
        self._before = directory / "before.ckpt"
        self._owner = directory / "owner"
        self._attempt = attempt
        directory.mkdir(parents=True, exist_ok=True)
        self._owner_check()
        self._owner.write_text(str(attempt), encoding="ascii")

    def save(self, payload: bytes, *, slow_s: float = 0.0) -> int:
        """Write a checkpoint and return its size. ``slow_s`` stretches the writing, for tests.

        Raises:
            OSError: it could not be written; those that are there stay as they are.
            Fenced: a later attempt has begun.
        """
        content = hashlib.sha256(payload).digest() + payload
        aside = self._directory / f"writing-{self._attempt}"
        try:
            with open(aside, "wb") as file:
                step = len(content) // _PIECES + 1
                for start in range(0, len(content), step):
                    file.write(content[start : start + step])
                    file.flush()
                    time.sleep(slow_s / _PIECES)
                os.fsync(file.fileno())
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        self._owner_check()
        if self._newest.exists() and _read_whole(self._newest) is not None:
            os.replace(self._newest, self._before)
        os.replace(aside, self._newest)
        _sync_directory(self._directory)
        return len(content)

    def load(self) -> tuple[bytes, str] | None:
        """Return the newest whole checkpoint and which one it is, or None where there is none."""
        for path, name in ((self._newest, "newest"), (self._before, "before")):
            payload = _read_whole(path)
            if payload is not None:
                return payload, name
        return None

    def _owner_check(self) -> None:
        if not self._owner.exists():
            return
        owner = int(self._owner.read_text(encoding="ascii") or 0)
        if owner > self._attempt:
            raise Fenced(f"attempt {owner} has begun; this is attempt {self._attempt}")


def _read_whole(path: Path) -> bytes | None:
    if not path.exists():
        return None
    content = path.read_bytes()
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
