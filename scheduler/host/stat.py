"""One process at one instant, as every reader of processes returns it."""

from __future__ import annotations

from typing import NamedTuple


class Stat(NamedTuple):
    """One process at one instant. ``start_ticks`` is opaque: equal for one process only."""

    pid: int
    ppid: int
    pgid: int
    start_ticks: int
    is_zombie: bool
    cpu_us: int
    reaped_cpu_us: int  # of children that have ended and were waited for
    resident_bytes: int
