"""The stand-in where there is no GPU: CPU time of a replica's processes, against its share.

A share is the granted fraction of a device, and a virtual device is its part of the host's cores.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.host import processes
from scheduler.host.stat import Stat
from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget

SOURCE = "process-cpu"
_WINDOW_S = 5.0  # utilisation is the mean over about this long
_LEAST_S = 0.25  # shorter than this, the clock ticks of the kernel are too coarse
_NEVER_ABOVE_MIB = 2**40
#: The kernel rounds user and system time of a process down to clock ticks, so that the difference of
#: two readings may be too much by as many.
_ROUNDED_TICKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of one replica at one instant. ``started`` tells its process from a later one."""

    at_ns: int
    started: int
    cpu_us: int
    run_ns: int | None
    wait_ns: int | None
    memory_mib: int
    #: Processes of which ``cpu_us`` is the sum.
    process_count: int = 1


class ProcessCpuSampler:
    """Samples by /proc. What it keeps, the readings of the last seconds, may be lost at any time."""

    def __init__(
        self, *, host_cores: int | None = None, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._host_cores = host_cores or _count_cores()
        self._clock_ns = clock_ns
        self._readings: dict[tuple[int, int], deque[Reading]] = {}

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order."""
        wanted = {(target.replica_id, target.attempt) for target in targets}
        self._readings = {key: kept for key, kept in self._readings.items() if key in wanted}
        return tuple(self._sample_one(target) for target in targets)

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return nothing: virtual devices have nothing to say of their own."""
        return ()

    def _sample_one(self, target: SampleTarget) -> ReplicaSample:
        key = (target.replica_id, target.attempt)
        reading = read(target, at_ns=self._clock_ns())
        if reading is None:
            self._readings.pop(key, None)
            return _unknown(target)
        kept = self._readings.setdefault(key, deque())
        if kept and (kept[-1].started != reading.started or kept[-1].cpu_us > reading.cpu_us):
            kept.clear()  # another process, or counters that began anew
        while len(kept) > 1 and reading.at_ns - kept[1].at_ns >= _WINDOW_S * 1e9:
            kept.popleft()
        before = kept[0] if kept else None
        if not kept or reading.at_ns - kept[-1].at_ns >= _LEAST_S * 1e9:
            kept.append(reading)
        return compare(target, before=before, now=reading, host_cores=self._host_cores)


def read(target: SampleTarget, *, at_ns: int) -> Reading | None:
    """Return the counters of a replica now, or None where its first process can't be read."""
    first = None if target.pid is None else processes.find_stat(target.pid)
    if first is None or target.pid is None:
        return None
    members = {first.pid: first}
    members.update((stat.pid, stat) for stat in processes.list_descendants(first.pid))
    supervisor: Stat | None = None
    if target.supervisor_pid is not None:
        supervisor = processes.find_stat(target.supervisor_pid)
        below = processes.list_descendants(target.supervisor_pid)
        members.update((stat.pid, stat) for stat in below)
    stats = list(members.values())
    run_ns, wait_ns = _sum_run_ns(stats)
    return Reading(
        at_ns=at_ns,
        started=first.start_ticks,
        cpu_us=sum(stat.cpu_us + stat.reaped_cpu_us for stat in stats)
        + (0 if supervisor is None else supervisor.reaped_cpu_us),
        run_ns=run_ns,
        wait_ns=wait_ns,
        memory_mib=processes.resident_mib(stats, exact_above_mib=_NEVER_ABOVE_MIB),
        process_count=len(stats),
    )


def compare(
    target: SampleTarget, *, before: Reading | None, now: Reading, host_cores: int
) -> ReplicaSample:
    """Return what happened between two readings; unknown activity where there is only one."""
    elapsed_us = 0 if before is None else (now.at_ns - before.at_ns) // 1000
    if before is None or elapsed_us < _LEAST_S * 1e6:
        return _unknown(target, memory_mib=now.memory_mib, cpu_usec=now.cpu_us)
    ran_us = _ran_us(before, now)
    wanted_us = ran_us + _delta_us(before.wait_ns, now.wait_ns)
    share_us = elapsed_us * host_cores * target.request_mgpu // (1000 * target.host_devices)
    return ReplicaSample(
        replica_id=target.replica_id,
        attempt=target.attempt,
        sampled_at=datetime.now(tz=UTC),
        utilization_permille=_permille(ran_us, share_us),
        demand_permille=_permille(wanted_us, share_us),
        memory_mib=now.memory_mib,
        cpu_usec=now.cpu_us,
        cpu_milli=ran_us * 1000 // elapsed_us,
        source=SOURCE,
    )


def _ran_us(before: Reading, now: Reading) -> int:
    """Return the CPU time between two readings.

    The run queue is exact, but forgets threads that ended; clock ticks have those, but are coarse: one
    tick in five seconds looks like a hundredth of a small share. So ticks count beyond their rounding.
    """
    ticks_us = now.cpu_us - before.cpu_us
    if before.run_ns is None or now.run_ns is None:
        return ticks_us
    rounded_us = _ROUNDED_TICKS * processes.TICK_US * max(before.process_count, now.process_count)
    return max(_delta_us(before.run_ns, now.run_ns), ticks_us - rounded_us)


def _unknown(
    target: SampleTarget, *, memory_mib: int | None = None, cpu_usec: int | None = None
) -> ReplicaSample:
    return ReplicaSample(
        replica_id=target.replica_id,
        attempt=target.attempt,
        sampled_at=datetime.now(tz=UTC),
        memory_mib=memory_mib,
        cpu_usec=cpu_usec,
        source=SOURCE,
    )


def _permille(part_us: int, share_us: int) -> int | None:
    """Return the part of a share, rounded up so that a little is not nothing; None without one."""
    return None if share_us == 0 else min(-(-part_us * 1000 // share_us), 1000)


def _delta_us(before_ns: int | None, now_ns: int | None) -> int:
    if before_ns is None or now_ns is None:
        return 0
    return max(now_ns - before_ns, 0) // 1000  # less than before: threads that ended took theirs


def _sum_run_ns(stats: list[Stat]) -> tuple[int | None, int | None]:
    told = [pair for stat in stats if (pair := processes.read_run_ns(stat.pid)) is not None]
    if not told:
        return None, None
    return sum(ran for ran, _ in told), sum(waited for _, waited in told)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
