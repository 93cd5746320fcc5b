"""What would make a waiting workload run. Every answer was tried on the core, so none is wrong.

Sentences are made where they are shown; here are kinds and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.core import preview
from scheduler.core.plan import Hold
from scheduler.core.snapshot import Policy, QueueQuota, Snapshot, Workload
from scheduler.core.units import UNLIMITED_MGPU, WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Level, Reason

#: How many cycles one question may cost.
TRIES = 120
#: How many running workloads are tried as "would run if this one ended".
_ENDS = 20


class Way(StrEnum):
    """What would have to change."""

    REQUEST = "request"  # ask for less of a device
    DEVICES = "devices"  # ask for fewer devices
    MINIMUM = "minimum"  # ask for fewer replicas at once
    PREEMPTIBLE = "preemptible"  # let it be interrupted: it may then borrow
    QUOTA = "quota"  # raise a queue's quota
    LIMIT = "limit"  # raise a queue's limit
    END = "end"  # wait until, or see to it that, another workload ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change that would make the workload run, tried and found to do so."""

    way: Way
    #: The new value: mGPU, devices or replicas by the way; None where there is no amount.
    value: int | None = None
    #: The value now.
    before: int | None = None
    level: Level | None = None
    queue_id: int | None = None
    #: For ``END``: whose end.
    workload_id: int | None = None
    #: How many others the change would interrupt.
    interrupts: int = 0


def find_remedies(
    *, snapshot: Snapshot, policy: Policy, now_us: int, workload_id: int
) -> tuple[Remedy, ...]:
    """Return the smallest change of each kind that makes the workload run; none where it runs."""
    found = {each.id: each for each in snapshot.workloads}
    asker = _Asker(snapshot, policy, now_us, found[workload_id])
    if asker.runs_now or found[workload_id].is_kept_back(now_us):
        return ()
    remedies = [each for each in asker.remedies() if each is not None]
    return tuple(remedies)


class _Asker:
    """Asks the core "would it run if ...", a bounded number of times."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now_us: int, workload: Workload) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._now_us = now_us
        self._workload = workload
        self._left = TRIES
        first = self._look(snapshot)
        self.runs_now = self._has_more(first)
        self._hold = next((h for h in first.holds if h.workload_id == workload.id), None)
        self._interrupted = len(first.interruptions)
        self._queues: dict[tuple[Level, int], QueueQuota] = {
            (Level.PROJECT, each.id): each.quota for each in snapshot.projects
        } | {(Level.DEPARTMENT, each.id): each.quota for each in snapshot.departments}

    def remedies(self) -> Iterator[Remedy | None]:
        """Yield one remedy of each kind that there is."""
        yield self._preemptible()
        yield self._limit()
        yield self._quota()
        yield self._request()
        yield self._devices()
        yield self._minimum()
        yield self._end()

    def _look(self, snapshot: Snapshot) -> preview.Preview:
        self._left -= 1
        return preview.preview(snapshot=snapshot, policy=self._policy, now_us=self._now_us)

    def _has_more(self, seen: preview.Preview) -> bool:
        """Test whether the workload has what it now asks for: a start, or one replica more."""
        return seen.replicas.get(self._workload.id, 0) > len(self._workload.replicas)

    def _try(self, snapshot: Snapshot) -> int | None:
        """Return how many more would be interrupted where the workload runs, None where it does not."""
        if self._left <= 0:
            return None
        seen = self._look(snapshot)
        if not self._has_more(seen):
            return None
        return max(0, len(seen.interruptions) - self._interrupted)

    def _with(self, **fields: object) -> Snapshot:
        changed = replace(self._workload, **fields)  # type: ignore[arg-type]
        return preview.with_workload(self._snapshot, changed)

    def _preemptible(self) -> Remedy | None:
        if self._workload.preemptible:
            return None
        cost = self._try(self._with(preemptible=True))
        return None if cost is None else Remedy(way=Way.PREEMPTIBLE, interrupts=cost)

    def _limit(self) -> Remedy | None:
        hold = self._hold
        if hold is None or hold.reason is not Reason.OVER_LIMIT or hold.resource != "gpu":
            return None
        queue = _queue_of(hold)
        before = self._queues[queue].effective_limit_mgpu

        def changed(value: int) -> Snapshot:
            quota = replace(self._queues[queue], limit_mgpu=value, over_quota=True)
            return preview.with_quota(
                self._snapshot, level=queue[0], queue_id=queue[1], quota=quota
            )

        found = self._smallest(before + 1, _after(hold), changed)
        return _queue_remedy(Way.LIMIT, queue, before, found)

    def _quota(self) -> Remedy | None:
        """Return the smallest raise of one queue's quota: of the one that refused, or the project's."""
        hold = self._hold
        queue = (Level.PROJECT, self._workload.project_id)
        if hold is not None and hold.reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA:
            queue = _queue_of(hold)
        before = self._queues[queue].quota_mgpu
        if before >= UNLIMITED_MGPU:
            return None
        request = self._workload.request
        asked = request.devices * request.request_mgpu * max(1, self._workload.min_replicas)
        held = sum(
            each.request.devices * each.request.request_mgpu * len(each.replicas)
            for each in self._snapshot.workloads
            if each.project_id == self._workload.project_id
        )
        most = max(before + asked, held + asked)

        def changed(value: int) -> Snapshot:
            quota = self._queues[queue]
            quota = replace(quota, quota_mgpu=value, limit_mgpu=max(value, quota.limit_mgpu))
            return preview.with_quota(
                self._snapshot, level=queue[0], queue_id=queue[1], quota=quota
            )

        found = self._smallest(before + 1, most, changed)
        return _queue_remedy(Way.QUOTA, queue, before, found)

    def _request(self) -> Remedy | None:
        request = self._workload.request
        if request.is_memory or not 1 < request.request_mgpu <= WHOLE_GPU_MGPU:
            return None
        most = min(request.request_mgpu, WHOLE_GPU_MGPU) - 1
        found = self._largest(
            1, most, lambda value: self._with(request=replace(request, request_mgpu=value))
        )
        return _own_remedy(Way.REQUEST, request.request_mgpu, found)

    def _devices(self) -> Remedy | None:
        request = self._workload.request
        if request.devices < 2:
            return None
        found = self._largest(
            1,
            request.devices - 1,
            lambda value: self._with(request=replace(request, devices=value)),
        )
        return _own_remedy(Way.DEVICES, request.devices, found)

    def _minimum(self) -> Remedy | None:
        least = self._workload.min_replicas
        if self._workload.kind is Kind.INFERENCE or least < 2 or self._workload.replicas:
            return None
        found = self._largest(1, least - 1, lambda value: self._with(min_replicas=value))
        return _own_remedy(Way.MINIMUM, least, found)

    def _end(self) -> Remedy | None:
        """Return the smallest running workload whose end would be enough."""
        running = [each for each in self._snapshot.workloads if each.replicas]
        running.sort(
            key=lambda each: (
                len(each.replicas) * each.request.devices * each.request.request_mgpu,
                each.submitted_at_us,
                each.id,
            )
        )
        for each in running[:_ENDS]:
            if each.id == self._workload.id:
                continue
            cost = self._try(preview.without_workload(self._snapshot, each.id))
            if cost is not None:
                return Remedy(way=Way.END, workload_id=each.id, interrupts=cost)
        return None

    def _smallest(
        self, least: int, most: int, changed: Callable[[int], Snapshot]
    ) -> tuple[int, int] | None:
        """Return (value, interruptions) of the smallest value that is enough, or None if none is."""
        cost = self._try(changed(most)) if most >= least else None
        if cost is None:
            return None
        while least < most and self._left > 0:
            middle = (least + most) // 2
            seen = self._try(changed(middle))
            if seen is None:
                least = middle + 1
            else:
                most, cost = middle, seen
        return most, cost

    def _largest(
        self, least: int, most: int, changed: Callable[[int], Snapshot]
    ) -> tuple[int, int] | None:
        """Return (value, interruptions) of the largest value that is small enough, or None."""
        found = self._smallest(-most, -least, lambda value: changed(-value))
        return None if found is None else (-found[0], found[1])


def _queue_of(hold: Hold) -> tuple[Level, int]:
    assert hold.level is not None
    assert hold.queue_id is not None
    return hold.level, hold.queue_id


def _after(hold: Hold) -> int:
    """Return what the queue would hold with the request."""
    return (hold.allocated or 0) + (hold.requested or 0)


def _queue_remedy(
    way: Way, queue: tuple[Level, int], before: int, found: tuple[int, int] | None
) -> Remedy | None:
    if found is None:
        return None
    value, cost = found
    return Remedy(
        way=way, value=value, before=before, level=queue[0], queue_id=queue[1], interrupts=cost
    )


def _own_remedy(way: Way, before: int, found: tuple[int, int] | None) -> Remedy | None:
    if found is None:
        return None
    return Remedy(way=way, value=found[0], before=before, interrupts=found[1])
