"""What every benchmark returns: rows of one figure each, beside its goal. And the machine's size."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. ``passed``: None where the row has no goal of its own."""

    what: str
    value: float
    unit: str = "s"
    goal: str = ""
    passed: bool | None = None
    note: str = ""


def machine() -> str:
    """Return the size of this machine, to be kept beside the figures."""
    memory_gib = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} CPUs, {memory_gib:.0f} GiB, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}"
    )
