"""What is measured of replicas: the Sampler protocol, whom it is asked about, what it tells.

What can't be read is None and never zero: to be called idle takes evidence. No Django here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTarget:
    """One live replica: its processes are ``pid``, and all that descends from the supervisor.

    ``host_devices`` is how many virtual devices share this machine's CPUs, over all of its nodes:
    a stand-in device is that part of them.
    """

    replica_id: int
    attempt: int
    pid: int | None
    supervisor_pid: int | None
    request_mgpu: int
    device_uuids: tuple[str, ...] = ()
    host_devices: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSample:
    """What one replica did since the reading before.

    ``utilization_permille`` is of its granted share (1000 = all of its slice) and never above 1000.
    ``demand_permille`` also counts the time in which it wanted to run and had to wait for others;
    idle is judged by this one, so that many who compete for few cores are never called idle.
    """

    replica_id: int
    attempt: int
    sampled_at: datetime
    utilization_permille: int | None = None
    demand_permille: int | None = None
    memory_mib: int | None = None
    cpu_usec: int | None = None  # since its start
    cpu_milli: int | None = None  # 1000 = one CPU
    source: str = ""

    @property
    def is_valid(self) -> bool:
        """Test whether this says anything about being busy or idle."""
        return self.demand_permille is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """What one device says of itself, over all who share it."""

    uuid: str
    sampled_at: datetime
    utilization_permille: int | None = None
    memory_used_mib: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None


class Sampler(Protocol):
    """Measures. Keeps the reading before and nothing else; the first reading is unknown."""

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order."""

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each real device; virtual ones have nothing to say."""
