"""A clock that can be stepped: for the product's processes alone, by a small library that they load."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
BUILD_S = 60
LAYOUT = "=q"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedClock:
    """What has been added to the wall clock of the product, in whole seconds."""

    library: Path
    offset: Path

    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.library), "TIDEGATE_FAULT_CLOCK": str(self.offset)}

    def step_to(self, seconds: int) -> None:
        """Put the clock so far ahead of the machine's, or behind it. In place: it is mapped."""
        with open(self.offset, "r+b") as file:
            file.write(struct.pack(LAYOUT, seconds))


def make_clock(folder: Path) -> SteppedClock | None:
    """Build the library; None where this machine has no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library, offset = folder / "clock.so", folder / "clock.offset"
    built = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(built, check=True, timeout=BUILD_S)
    offset.write_bytes(struct.pack(LAYOUT, 0))
    return SteppedClock(library=library, offset=offset)
