"""NVIDIA's devices of this machine through NVML: which there are, and who holds how much of their memory.

Where a card is divided by MIG, its instances are the devices and the card is none. Only those who measure
import this: a supervisor has no need of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

MIB = 2**20


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Have NVML open.

    Raises:
        pynvml.NVMLError: there is no driver, or it does not answer.
    """
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def list_handles() -> Iterator[Any]:
    """Yield what work can be given, in NVML's order: cards, and the instances of those that MIG divides."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        card = pynvml.nvmlDeviceGetHandleByIndex(index)
        if _is_divided(card):
            yield from _instances(card)
        else:
            yield card


def _is_divided(card: Any) -> bool:
    try:
        now, _after_reset = pynvml.nvmlDeviceGetMigMode(card)
    except pynvml.NVMLError:  # a card that knows nothing of MIG
        return False
    return bool(now == pynvml.NVML_DEVICE_MIG_ENABLE)


def _instances(card: Any) -> Iterator[Any]:
    """Yield the instances that are made; a divided card without any can run nothing."""
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place)
        except pynvml.NVMLError_NotFound:  # nothing is made in this place
            continue


def card_of(handle: Any) -> Any:
    """Return the card that an instance is a part of; a card is its own."""
    if pynvml.nvmlDeviceIsMigDeviceHandle(handle):
        return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return handle


def read_memory_by_pid(handle: Any) -> dict[int, int | None]:
    """Return the MiB that each process holds on a device; None: the device does not tell.

    Under MPS the server alone is listed beside its clients; each of them counts for itself.

    Raises:
        pynvml.NVMLError: the device tells nothing of processes.
    """
    found = _by_pid(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    try:
        clients = _by_pid(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle)
    except pynvml.NVMLError:  # a driver or device without MPS
        clients = {}
    for pid, mib in clients.items():
        before = found.get(pid)
        found[pid] = mib if before is None else max(before, mib or 0)
    return found


def _by_pid(ask: Callable[[Any], Any], handle: Any) -> dict[int, int | None]:
    return {
        int(process.pid): None
        if process.usedGpuMemory is None
        else int(process.usedGpuMemory) // MIB
        for process in ask(handle)
    }
