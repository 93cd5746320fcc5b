"""Measures what an empty process takes on a real GPU: a context is made, NVML tells its memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import pynvml

from scheduler.host import nvidia

_SETTLE_S = 20.0


class CanNotMeasure(Exception):
    """There is no card here, or it does not tell; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """What was found on one model of GPU."""

    gpu_model: str
    fixed_mib: int


def measure() -> tuple[FixedCost, ...]:
    """Return the fixed cost of each model of GPU in this machine.

    Raises:
        CanNotMeasure: no NVIDIA card, or one that does not tell memory by process.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise CanNotMeasure(
            "There is no NVIDIA card with a driver in this machine, so nothing can be measured. Run "
            "this on a machine that has one; until then the submit page calls its figure an "
            "assumption."
        ) from error
    try:
        found: dict[str, int] = {}
        for handle in nvidia.list_handles():
            model = str(pynvml.nvmlDeviceGetName(handle))
            if model not in found:
                found[model] = _measure_one(str(pynvml.nvmlDeviceGetUUID(handle)), handle)
        return tuple(FixedCost(gpu_model=model, fixed_mib=mib) for model, mib in found.items())
    finally:
        pynvml.nvmlShutdown()


def _measure_one(uuid: str, handle: object) -> int:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_hold_context, args=(uuid, theirs), daemon=True)
    child.start()
    try:
        if not ours.poll(_SETTLE_S):
            raise CanNotMeasure("The CUDA driver did not make a context in time.")
        said = ours.recv()
        if said:
            raise CanNotMeasure(f"No CUDA context could be made: {said}")
        return _read_mib(handle, child.pid or 0)
    finally:
        ours.send(None)
        child.join(timeout=_SETTLE_S)


def _read_mib(handle: Any, pid: int) -> int:
    until_s = time.monotonic() + _SETTLE_S
    while time.monotonic() < until_s:
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == pid and process.usedGpuMemory is not None:
                return -(-int(process.usedGpuMemory) // nvidia.MIB)
        time.sleep(0.2)
    raise CanNotMeasure("The card does not tell how much memory each process holds.")


def _hold_context(uuid: str, pipe: Connection) -> None:
    """Make a context on one device and hold it until told otherwise. Runs in a process of its own."""
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    send, receive = pipe.send, pipe.recv
    try:
        cuda: Any = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        send(str(error))
        return
    device, holder = ctypes.c_int(), ctypes.c_void_p()
    code = (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(holder), device)
    )
    if code:
        send(f"CUDA error {code}")
        return
    send("")
    receive()
