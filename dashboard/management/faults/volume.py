"""A volume of its own for the product's data, small enough to be filled."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SIZE_MIB = 512
PIECE = b"\0" * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Where the data lie. ``can_fill``: it is a file system of its own."""

    folder: Path
    can_fill: bool

    def fill(self) -> None:
        """Take all that is free."""
        with open(self._filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def give_back(self) -> None:
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"


@contextmanager
def small_volume(folder: Path) -> Iterator[Volume]:
    """Give a volume in memory at ``folder``, or the folder itself where none may be mounted."""
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=700", "tidegate-faults"]
    mounted = os.getuid() == 0 and _did([*mount, str(folder)])
    try:
        yield Volume(folder=folder, can_fill=mounted)
    finally:
        if mounted:
            _did(["umount", "--lazy", str(folder)])


def _did(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
