"""Queues: a department or a project with its bounds and what it holds at the moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.core.snapshot import UNLIMITED, Department, Project, QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Level


class Amount(NamedTuple):
    """What is held or asked for, as queues count it."""

    mgpu: int
    cpu_milli: int
    memory_mib: int


@dataclass(slots=True, eq=False, kw_only=True)
class Queue:
    """A department or a project with what it holds. ``bar_mgpu`` is what reclaim measures against."""

    id: int
    name: str
    level: Level
    quota: QueueQuota
    department: Queue | None = None
    limit_mgpu: int = 0
    cpu_limit_milli: int = 0
    memory_limit_mib: int = 0
    bar_mgpu: int = 0
    alloc_mgpu: int = 0
    alloc_cpu_milli: int = 0
    alloc_memory_mib: int = 0
    protected_mgpu: int = 0
    protected_cpu_milli: int = 0
    protected_memory_mib: int = 0
    #: Raised whenever something else waits of a project than before.
    line_changes: int = 0

    @property
    def is_above_bar(self) -> bool:
        """Test whether it holds more than what reclaim measures against."""
        return self.alloc_mgpu > self.bar_mgpu

    @property
    def is_bounded(self) -> bool:
        """Test whether it has a limit at all."""
        return (
            self.limit_mgpu < UNLIMITED_MGPU
            or self.cpu_limit_milli < UNLIMITED
            or self.memory_limit_mib < UNLIMITED
        )

    def totals(self) -> tuple[int, ...]:
        """Return all that it holds."""
        return (
            self.alloc_mgpu,
            self.alloc_cpu_milli,
            self.alloc_memory_mib,
            self.protected_mgpu,
            self.protected_cpu_milli,
            self.protected_memory_mib,
        )

    def add(self, amount: Amount, *, sign: int, preemptible: bool) -> bool:
        """Count ``amount`` in (+1) or out (-1). True: the queue came above its bar, or below it."""
        was_above = self.alloc_mgpu > self.bar_mgpu
        self.alloc_mgpu += sign * amount.mgpu
        self.alloc_cpu_milli += sign * amount.cpu_milli
        self.alloc_memory_mib += sign * amount.memory_mib
        if not preemptible:
            self.protected_mgpu += sign * amount.mgpu
            self.protected_cpu_milli += sign * amount.cpu_milli
            self.protected_memory_mib += sign * amount.memory_mib
        return was_above != (self.alloc_mgpu > self.bar_mgpu)

    def set_bounds(self, quota: QueueQuota) -> None:
        """Set quota and limits, and the bar to the quota."""
        self.quota = quota
        self.limit_mgpu = quota.effective_limit_mgpu
        over = quota.over_quota
        self.cpu_limit_milli = quota.cpu_limit_milli if over else quota.cpu_quota_milli
        self.memory_limit_mib = quota.memory_limit_mib if over else quota.memory_quota_mib
        self.bar_mgpu = quota.quota_mgpu


def queue_of(row: Department | Project, department: Queue | None) -> Queue:
    """Return the queue of ``row``, holding nothing yet."""
    queue = Queue(
        id=row.id,
        name=row.name,
        level=Level.DEPARTMENT if department is None else Level.PROJECT,
        quota=row.quota,
        department=department,
    )
    queue.set_bounds(row.quota)
    return queue
