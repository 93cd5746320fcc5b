"""Data kept once for all who mount them: trees named by what is in them, never changed afterwards.

A tree appears whole under its name or not at all, and is read-only, so that who mounts it leaves it as
it is. Standard library only: the program that fetches loads this.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_TREE_NAME = re.compile(r"[a-z0-9]+-[0-9a-f]{40,64}")
_CHUNK_BYTES = 2**20


class TreeRefused(Exception):
    """What was given can't be kept; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTree:
    """One tree of the store."""

    name: str
    files: int
    size_bytes: int


class Store:
    """A folder of trees."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees = root / "trees"
        self._trees.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        """Where the store lies."""
        return self._root

    def find(self, name: str) -> Path | None:
        """Return the folder of a tree, or None where it is not here."""
        path = self._trees / name
        return path if _TREE_NAME.fullmatch(name) and path.is_dir() else None

    def add_files(
        self, files: Iterable[tuple[str, BinaryIO]], *, limit_bytes: int, limit_files: int
    ) -> KeptTree:
        """Keep files under their relative paths; the name comes from paths and contents.

        Raises:
            TreeRefused: a path that leads out, the same path twice, too much or nothing at all.
        """
        with self.draft() as draft:
            seen: dict[str, str] = {}
            size_bytes = 0
            for path, stream in files:
                name = _safe(path)
                if name in seen:
                    raise TreeRefused(f"{name} is there twice")
                if len(seen) >= limit_files:
                    raise TreeRefused(f"more than {limit_files} files")
                target = draft / name
                target.parent.mkdir(parents=True, exist_ok=True)
                digest, size = _write(stream, target, limit_bytes - size_bytes)
                seen[name] = digest
                size_bytes += size
            if not seen:
                raise TreeRefused("there are no files")
            lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(seen.items()))
            tree = "sha256-" + hashlib.sha256(lines.encode()).hexdigest()
            self.publish(draft, name=tree)
        return KeptTree(name=tree, files=len(seen), size_bytes=size_bytes)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Give a folder to fill, on the store's volume; what is not published is removed."""
        path = self._root / f"draft-{os.getpid()}-{secrets.token_hex(6)}"
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def publish(self, draft: Path, *, name: str) -> Path:
        """Make a filled draft the tree of that name, read-only; of several makers one wins."""
        target = self._trees / name
        with contextlib.suppress(FileNotFoundError):
            os.utime(target)  # wanted again: the sweep begins to count anew
        if not target.is_dir():
            make_read_only(draft)
            with contextlib.suppress(OSError):  # another was quicker: theirs is the same
                os.rename(draft, target)
            if not target.is_dir():
                raise TreeRefused(f"{name} could not be kept in {self._trees}")
        return target

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Let one process at a time work on ``name``, so that nothing is fetched twice."""
        path = self._root / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def list_older(self, *, prefix: str, before_s: float) -> list[str]:
        """Return the trees of that prefix that nobody has kept since (seconds since 1970)."""
        return sorted(
            path.name
            for path in self._trees.iterdir()
            if path.name.startswith(prefix) and path.stat().st_mtime < before_s
        )

    def remove(self, name: str) -> None:
        """Remove a tree."""
        path = self.find(name)
        if path is None:
            return
        for folder, _folders, _files in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def make_read_only(folder: Path) -> None:
    """Take the right to write away from everything below a folder."""
    for here, _folders, files in os.walk(folder, topdown=False):
        for name in files:
            path = os.path.join(here, name)
            if not os.path.islink(path):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                os.chmod(path, mode & ~0o222)
        os.chmod(here, 0o500 if here != str(folder) else 0o700)


def _safe(path: str) -> str:
    """Return a relative path in its plain form.

    Raises:
        TreeRefused: it leads out of where it begins.
    """
    pure = PurePosixPath(path.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or "\0" in path or not pure.parts:
        raise TreeRefused(f"{path!r} leads out of the tree")
    return str(pure)


def _write(stream: BinaryIO, target: Path, left_bytes: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open(target, "wb") as file:
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > left_bytes:
                raise TreeRefused("it is too large")
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest(), size
