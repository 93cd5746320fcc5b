"""NVIDIA devices through NVML: load and memory of each process, and what a card says of itself."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pynvml

from scheduler.host import nvidia, processes
from scheduler.telemetry import attribution
from scheduler.telemetry.attribution import DeviceReading, Sharer
from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget

log = logging.getLogger(__name__)

SOURCE = "nvml"


class NvmlSampler:
    """Samples real devices. CPU time is not measured here: a GPU's work is the measure."""

    def __init__(self) -> None:
        self._seen_until_us: dict[str, int] = {}

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order."""
        uuids = {uuid for target in targets for uuid in target.device_uuids}
        readings = self._read_devices(uuids)
        sharers = {uuid: sum(uuid in target.device_uuids for target in targets) for uuid in uuids}
        return tuple(_sample_one(target, readings, sharers) for target in targets)

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each device of this machine: each card, or each MIG instance of one."""
        with nvidia.opened():
            return tuple(_sample_device(handle) for handle in nvidia.list_handles())

    def _read_devices(self, uuids: set[str]) -> dict[str, DeviceReading]:
        try:
            with nvidia.opened():
                return {uuid: self._read_device(uuid) for uuid in uuids}
        except pynvml.NVMLError:  # no driver now: nothing is known of any
            log.warning("telemetry.nvml.unreadable", exc_info=True)
            return {uuid: DeviceReading() for uuid in uuids}

    def _read_device(self, uuid: str) -> DeviceReading:
        handle = _maybe(pynvml.nvmlDeviceGetHandleByUUID, uuid)
        if handle is None:
            return DeviceReading()
        return DeviceReading(
            utilization_permille=_maybe(_read_utilization, handle),
            by_pid_permille=_maybe(lambda h: self._read_by_pid(uuid, h), handle),
            memory_mib_by_pid=_maybe(nvidia.read_memory_by_pid, handle),
        )

    def _read_by_pid(self, uuid: str, handle: Any) -> dict[int, int] | None:
        """Return the newest load of each process since we last looked; None where none is told."""
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(
                handle, self._seen_until_us.get(uuid, 0)
            )
        except pynvml.NVMLError_NotFound:  # nothing new: the card's own figure decides
            return None
        newest = sorted(samples, key=lambda sample: int(sample.timeStamp))
        if not newest:
            return None
        self._seen_until_us[uuid] = int(newest[-1].timeStamp)
        return {int(sample.pid): int(sample.smUtil) * 10 for sample in newest}


def _sample_one(
    target: SampleTarget, readings: dict[str, DeviceReading], sharers: dict[str, int]
) -> ReplicaSample:
    """Return the mean over a replica's devices; unknown if any of them is unknown."""
    sharer = Sharer(
        pids=_pids(target),
        request_mgpu=target.request_mgpu // max(len(target.device_uuids), 1),
    )
    loads = [
        attribution.utilization_permille(
            device=readings[uuid], sharer=sharer, sharer_count=sharers[uuid]
        )
        for uuid in target.device_uuids
    ]
    held = [
        attribution.memory_mib(device=readings[uuid], sharer=sharer) for uuid in target.device_uuids
    ]
    load = _mean(loads)
    return ReplicaSample(
        replica_id=target.replica_id,
        attempt=target.attempt,
        sampled_at=datetime.now(tz=UTC),
        utilization_permille=load,
        demand_permille=load,
        memory_mib=None if None in held else sum(mib for mib in held if mib is not None),
        source=SOURCE,
    )


def _pids(target: SampleTarget) -> frozenset[int]:
    if target.pid is None:
        return frozenset()
    roots = [target.pid] + ([target.supervisor_pid] if target.supervisor_pid is not None else [])
    below = {stat.pid for root in roots for stat in processes.list_descendants(root)}
    return frozenset(below | {target.pid})


def _mean(loads: list[int | None]) -> int | None:
    known = [load for load in loads if load is not None]
    if not loads or len(known) < len(loads):
        return None
    return -(-sum(known) // len(known))


def _sample_device(handle: Any) -> DeviceSample:
    memory = _maybe(lambda h: int(pynvml.nvmlDeviceGetMemoryInfo(h).used) // nvidia.MIB, handle)
    return DeviceSample(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        sampled_at=datetime.now(tz=UTC),
        utilization_permille=_maybe(_read_utilization, handle),
        memory_used_mib=memory,
        temperature_c=_maybe(_read_temperature, handle),
        power_mw=_maybe(lambda h: int(pynvml.nvmlDeviceGetPowerUsage(h)), handle),
    )


def _read_temperature(handle: Any) -> int:
    card = nvidia.card_of(handle)  # an instance has none of its own
    return int(pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU))


def _read_utilization(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) * 10


def _maybe(read: Any, handle: Any) -> Any:
    """Return a reading, or None where this card can't give it: unknown, never zero."""
    try:
        return read(handle)
    except pynvml.NVMLError:  # not supported, not permitted, a card that fell off the bus
        return None


def is_there() -> bool:
    """Test whether this machine has an NVIDIA device that answers."""
    try:
        with nvidia.opened():
            return int(pynvml.nvmlDeviceGetCount()) > 0
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return False
