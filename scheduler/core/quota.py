"""Checks 1 and 2: limits and guarantees, the project before its department. Room is what they leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.core.plan import Check
from scheduler.core.queues import Amount, Queue
from scheduler.core.snapshot import UNLIMITED
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Reason

#: Amounts from here on are "no bound".
_NO_BOUND = min(UNLIMITED, UNLIMITED_MGPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The first check that fails: ``have + requested > bound`` of ``resource`` at ``queue``."""

    reason: Reason
    queue: Queue
    resource: str
    bound: int
    have: int
    requested: int


def levels(project: Queue) -> tuple[Queue, ...]:
    """Return the queues that a project's request is checked at, in order."""
    return (project,) if project.department is None else (project, project.department)


def find_refusal(*, project: Queue, amount: Amount, preemptible: bool) -> Refusal | None:
    """Return the first of checks 1 and 2 that ``amount`` fails, or None."""
    if passes(project=project, amount=amount, preemptible=preemptible):
        return None
    for queue in levels(project):
        if not _fits_limit(queue, amount):
            return _refusal(Reason.OVER_LIMIT, queue, _limit_rows(queue, amount))
    for queue in levels(project):
        if not fits_guarantee(queue, amount):
            return _refusal(
                Reason.NON_PREEMPTIBLE_OVER_QUOTA, queue, _guarantee_rows(queue, amount)
            )
    return None


def passes_guarantees(*, project: Queue, amount: Amount, preemptible: bool) -> bool:
    """Test check 2 alone: only a non-preemptible request can fail it."""
    if preemptible or not fits_guarantee(project, amount):
        return preemptible
    return project.department is None or fits_guarantee(project.department, amount)


def fits_guarantee(queue: Queue, amount: Amount) -> bool:
    """Test whether the protected part of ``queue`` would stay within its quota."""
    quota = queue.quota
    mgpu, cpu_milli, memory_mib = amount
    return (
        (not mgpu or queue.protected_mgpu + mgpu <= quota.quota_mgpu)
        and (not cpu_milli or queue.protected_cpu_milli + cpu_milli <= quota.cpu_quota_milli)
        and (not memory_mib or queue.protected_memory_mib + memory_mib <= quota.memory_quota_mib)
    )


def passes(*, project: Queue, amount: Amount, preemptible: bool) -> bool:
    """Test checks 1 and 2."""
    department = project.department
    return (
        _fits_limit(project, amount)
        and (department is None or _fits_limit(department, amount))
        and passes_guarantees(project=project, amount=amount, preemptible=preemptible)
    )


def never_fits(*, project: Queue, amount: Amount, preemptible: bool) -> bool:
    """Test whether a check fails even where nothing is held."""
    mgpu, cpu_milli, memory_mib = amount
    for queue in levels(project):
        quota = queue.quota
        if (
            mgpu > queue.limit_mgpu
            or cpu_milli > queue.cpu_limit_milli
            or memory_mib > queue.memory_limit_mib
        ):
            return True
        if not preemptible and (
            mgpu > quota.quota_mgpu
            or cpu_milli > quota.cpu_quota_milli
            or memory_mib > quota.memory_quota_mib
        ):
            return True
    return False


def room_mgpu(*, project: Queue, preemptible: bool) -> int | None:
    """Return how much more GPU checks 1 and 2 let a request of ``project`` take; None: no bound."""
    rooms = []
    for queue in levels(project):
        if queue.limit_mgpu < _NO_BOUND:
            rooms.append(queue.limit_mgpu - queue.alloc_mgpu)
        if not preemptible and queue.quota.quota_mgpu < _NO_BOUND:
            rooms.append(queue.quota.quota_mgpu - queue.protected_mgpu)
    return min(rooms, default=None)


def entitlement_checks(*, project: Queue, request_mgpu: int) -> tuple[Check, ...]:
    """Return the comparison that makes a request entitled to reclaim, at its project."""
    return (_check(project, project.bar_mgpu, project.alloc_mgpu, request_mgpu),)


def limit_checks(*, project: Queue, request_mgpu: int) -> tuple[Check, ...]:
    """Return the comparisons of check 1 on GPU, at both levels."""
    return tuple(
        _check(queue, queue.limit_mgpu, queue.alloc_mgpu, request_mgpu) for queue in levels(project)
    )


def _check(queue: Queue, bound_mgpu: int, have_mgpu: int, request_mgpu: int) -> Check:
    return Check(
        level=queue.level,
        queue_id=queue.id,
        bound_mgpu=bound_mgpu,
        have_mgpu=have_mgpu,
        request_mgpu=request_mgpu,
        holds=have_mgpu + request_mgpu <= bound_mgpu,
    )


def _fits_limit(queue: Queue, amount: Amount) -> bool:
    mgpu, cpu_milli, memory_mib = amount
    return (
        (not mgpu or queue.alloc_mgpu + mgpu <= queue.limit_mgpu)
        and (not cpu_milli or queue.alloc_cpu_milli + cpu_milli <= queue.cpu_limit_milli)
        and (not memory_mib or queue.alloc_memory_mib + memory_mib <= queue.memory_limit_mib)
    )


_Row = tuple[str, int, int, int]


def _limit_rows(queue: Queue, amount: Amount) -> Iterator[_Row]:
    """Yield (resource, limit, allocated, asked)."""
    yield "gpu", queue.limit_mgpu, queue.alloc_mgpu, amount.mgpu
    yield "cpu", queue.cpu_limit_milli, queue.alloc_cpu_milli, amount.cpu_milli
    yield "memory", queue.memory_limit_mib, queue.alloc_memory_mib, amount.memory_mib


def _guarantee_rows(queue: Queue, amount: Amount) -> Iterator[_Row]:
    """Yield (resource, quota, protected, asked)."""
    quota = queue.quota
    yield "gpu", quota.quota_mgpu, queue.protected_mgpu, amount.mgpu
    yield "cpu", quota.cpu_quota_milli, queue.protected_cpu_milli, amount.cpu_milli
    yield "memory", quota.memory_quota_mib, queue.protected_memory_mib, amount.memory_mib


def _refusal(reason: Reason, queue: Queue, rows: Iterator[_Row]) -> Refusal:
    resource, bound, have, asked = next(row for row in rows if row[3] and row[2] + row[3] > row[1])
    return Refusal(
        reason=reason, queue=queue, resource=resource, bound=bound, have=have, requested=asked
    )
