"""What devices a machine has: NVIDIA's by NVML, or virtual ones where there is no GPU."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
from typing import Any

import pynvml

from scheduler.engines.base import DeviceInfo, NodeInventory
from scheduler.host import nvidia

log = logging.getLogger(__name__)

#: The memory of the card in the article.
DEFAULT_VIRTUAL_MEMORY_MIB = 46_068


def read_inventory(*, virtual_count: int, virtual_memory_mib: int) -> NodeInventory:
    """Return CPU, memory and devices of this machine; virtual devices only where no GPU is."""
    devices = list_nvidia_devices() or list_virtual_devices(
        count=virtual_count, memory_mib=virtual_memory_mib
    )
    return NodeInventory(
        hostname=socket.gethostname(),
        cpu_milli=count_cpus() * 1000,
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        devices=devices,
    )


def count_cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def list_virtual_devices(
    *, count: int, memory_mib: int, node_name: str = ""
) -> tuple[DeviceInfo, ...]:
    """Return stand-ins for devices, named as such, with identifiers that stay the same."""
    return tuple(
        DeviceInfo(
            index=index,
            uuid="VIRTUAL-" + hashlib.sha256(f"{node_name}/{index}".encode()).hexdigest()[:16],
            model="virtual",
            memory_mib=memory_mib,
            virtual=True,
        )
        for index in range(count)
    )


def list_nvidia_devices() -> tuple[DeviceInfo, ...]:
    """Return the NVIDIA devices of this machine, MIG instances among them; none where there is no driver."""
    try:
        with nvidia.opened():
            return tuple(
                _read_device(index, handle) for index, handle in enumerate(nvidia.list_handles())
            )
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return ()


def _read_device(index: int, handle: Any) -> DeviceInfo:
    return DeviceInfo(
        index=index,
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        model=str(pynvml.nvmlDeviceGetName(handle)),
        memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // nvidia.MIB,
        virtual=False,
    )


def read_nvidia_memory_mib() -> dict[int, int]:
    """Return the device memory that each process holds, by pid, summed over devices.

    Empty where there is no NVIDIA device; without those devices that can't tell.
    """
    used: dict[int, int] = {}
    try:
        with nvidia.opened():
            for index, handle in enumerate(nvidia.list_handles()):
                for pid, mib in _read_memory_by_pid(index, handle).items():
                    used[pid] = used.get(pid, 0) + mib
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return {}
    return used


def _read_memory_by_pid(index: int, handle: Any) -> dict[int, int]:
    try:
        found = nvidia.read_memory_by_pid(handle)
    except pynvml.NVMLError:  # not supported, a card that fell off the bus: it tells nothing
        log.warning("engine.device.memory_unreadable", extra={"index": index}, exc_info=True)
        return {}
    return {pid: mib for pid, mib in found.items() if mib is not None}
