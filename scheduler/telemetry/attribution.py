"""Whose load is it? A device's readings, shared out among those who share it. Pure.

With a figure for each process, each replica gets its own. With only the card's figure, it belongs
to the one who holds the card alone; of two or more sharers nobody knows who did it, unless it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """One device at one instant. None: it could not be read."""

    utilization_permille: int | None = None  # of the card
    by_pid_permille: dict[int, int] | None = None  # of the card
    memory_mib_by_pid: dict[int, int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """One replica on one device."""

    pids: frozenset[int]
    request_mgpu: int


def utilization_permille(*, device: DeviceReading, sharer: Sharer, sharer_count: int) -> int | None:
    """Return what a replica used of its own slice of this device, or None where nobody knows."""
    of_card = _of_card_permille(device, sharer, sharer_count)
    if of_card is None or sharer.request_mgpu == 0:
        return None
    return min(-(-of_card * 1000 // sharer.request_mgpu), 1000)


def _of_card_permille(device: DeviceReading, sharer: Sharer, sharer_count: int) -> int | None:
    if device.by_pid_permille is not None:
        return sum(device.by_pid_permille.get(pid, 0) for pid in sharer.pids)
    if device.utilization_permille == 0 or sharer_count == 1:
        return device.utilization_permille
    return None


def memory_mib(*, device: DeviceReading, sharer: Sharer) -> int | None:
    """Return the device memory that a replica's processes hold; None where one is not told."""
    if device.memory_mib_by_pid is None:
        return None
    held = [device.memory_mib_by_pid[pid] for pid in sharer.pids if pid in device.memory_mib_by_pid]
    known = [mib for mib in held if mib is not None]
    return sum(known) if len(known) == len(held) else None
