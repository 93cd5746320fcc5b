"""A pool in simulated time: work arrives, the core decides, work ends; what was held is added up.

Evictions complete at once. Work that was interrupted goes on later from where it was, as with a
checkpoint at its end.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.cycle import settle
from scheduler.core.plan import Evict, Plan, Start
from scheduler.core.snapshot import Policy, Replica, Snapshot, Workload
from scheduler.core.units import WHOLE_GPU_MGPU

US = 1_000_000


@dataclass(slots=True, kw_only=True)
class Work:
    """One workload with what is left of it; ``left_us`` None: it never ends by itself."""

    workload: Workload
    left_us: int | None
    first_started_at_us: int | None = None
    interruptions: int = 0


@dataclass(slots=True)
class Totals:
    """What was added up over a stretch of time, in mGPU x microseconds, and counts."""

    capacity: int = 0
    held: int = 0
    #: By project id.
    held_by: dict[int, int] = field(default_factory=dict)
    #: Of what each project is guaranteed, what it did not hold.
    unused_by: dict[int, int] = field(default_factory=dict)
    #: Free on devices that are partly held.
    broken: int = 0
    #: Free while something waits.
    idle_waited: int = 0
    interruptions: int = 0
    cycles: int = 0


class SimulatedPool:
    """Nodes and queues of ``frame``, whose workloads come and go."""

    def __init__(self, frame: Snapshot, *, policy: Policy, last_id: int = 0) -> None:
        """``last_id``: no replica that is added has a larger id."""
        self._frame = frame
        self._policy = policy
        self._last_id = last_id
        self._ends: list[tuple[int, int, int]] = []
        self._running_us: dict[int, int] = {}
        #: From when on what runs is taken off what it has left: what ran before the simulation is not in it.
        self._counted_from_us: dict[int, int] = {}
        self._at_us = 0
        self._capacity = sum(len(node.devices) for node in frame.nodes) * WHOLE_GPU_MGPU
        self._held_by: dict[int, int] = {}
        self._quotas = {each.id: each.quota.quota_mgpu for each in frame.projects}
        self._broken = 0
        self.live: dict[int, Work] = {}
        self.done: list[Work] = []
        self.totals = Totals()

    @property
    def held_by(self) -> Mapping[int, int]:
        """What each project holds now, in mGPU."""
        return self._held_by

    @property
    def next_end_us(self) -> int | None:
        """When the next running work ends, unless something changes."""
        while self._ends and self._running_us.get(self._ends[0][1]) != self._ends[0][2]:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def add(self, work: Work) -> None:
        """Let ``work`` arrive; it is looked at in the next cycle."""
        self.live[work.workload.id] = work

    def change(self, workload_id: int, *, max_replicas: int) -> None:
        """Want another number of replicas of a service; those too many go at once, newest first."""
        work = self.live[workload_id]
        kept = work.workload.replicas[:max_replicas]
        work.workload = replace(work.workload, max_replicas=max_replicas, replicas=kept)

    def pass_time(self, *, to_us: int) -> None:
        """Add up what is held until ``to_us``, and end what ends by then."""
        span = to_us - self._at_us
        held = sum(self._held_by.values())
        totals = self.totals
        totals.capacity += span * self._capacity
        totals.held += span * held
        totals.broken += span * self._broken
        for project_id, mgpu in self._held_by.items():
            totals.held_by[project_id] = totals.held_by.get(project_id, 0) + span * mgpu
        for project_id, quota_mgpu in self._quotas.items():
            unused = max(0, quota_mgpu - self._held_by.get(project_id, 0))
            totals.unused_by[project_id] = totals.unused_by.get(project_id, 0) + span * unused
        if any(_is_waiting(work.workload) for work in self.live.values()):
            totals.idle_waited += span * (self._capacity - held)
        self._at_us = to_us
        while (ends_at_us := self.next_end_us) is not None and ends_at_us <= to_us:
            _, workload_id, _ = heapq.heappop(self._ends)
            del self._running_us[workload_id]
            self.done.append(self.live.pop(workload_id))

    def decide(self) -> None:
        """Run one cycle of the core at the present instant, and carry it out."""
        workloads = tuple(work.workload for work in self.live.values())
        snapshot = replace(self._frame, workloads=workloads)
        plan = settle(snapshot=snapshot, policy=self._policy, now_us=self._at_us)
        before = {each.id for each in workloads if each.replicas}
        self._carry_out(plan)
        self._count_interruptions(plan, before)
        for work in self.live.values():
            self._set_running(work)
        self._count_held()
        self.totals.cycles += 1

    def _carry_out(self, plan: Plan) -> None:
        """Apply the decisions; the core counts the replicas that it starts -1, -2 and so on."""
        new_id = 0
        real: dict[int, int] = {}
        for decision in plan.decisions:
            if isinstance(decision, Evict):
                for victim in decision.victims:
                    gone = {real.get(each, each) for each in victim.replica_ids}
                    self._take_away(victim.workload_id, gone)
                continue
            for placement in decision.placements:
                new_id -= 1
                self._last_id += 1
                real[new_id] = self._last_id
                started = Replica(id=self._last_id, placement=placement, started_at_us=self._at_us)
                work = self.live[decision.workload_id]
                replicas = (*work.workload.replicas, started)
                work.workload = replace(work.workload, replicas=replicas)

    def _take_away(self, workload_id: int, gone: Collection[int]) -> None:
        work = self.live[workload_id]
        kept = tuple(each for each in work.workload.replicas if each.id not in gone)
        work.workload = replace(work.workload, replicas=kept)

    def _count_interruptions(self, plan: Plan, before: Iterable[int]) -> None:
        ran = set(before)
        for decision in plan.decisions:
            if isinstance(decision, Start):
                continue
            for victim in decision.victims:
                if victim.workload_id in ran:
                    self.live[victim.workload_id].interruptions += 1
                    self.totals.interruptions += 1

    def _set_running(self, work: Work) -> None:
        """Start or stop the clock of ``work``, as it has its replicas or not."""
        workload = work.workload
        since_us = self._running_us.get(workload.id)
        oldest_us = min((each.started_at_us for each in workload.replicas), default=None)
        if since_us is not None and since_us != oldest_us:
            if work.left_us is not None:
                work.left_us -= self._at_us - self._counted_from_us[workload.id]
            del self._running_us[workload.id]
            since_us = None
        if since_us is None and oldest_us is not None:
            self._running_us[workload.id] = oldest_us
            self._counted_from_us[workload.id] = self._at_us
            if work.left_us is not None:
                heapq.heappush(self._ends, (self._at_us + work.left_us, workload.id, oldest_us))
            if work.first_started_at_us is None:
                work.first_started_at_us = self._at_us
        if workload.running_since_us != oldest_us:
            work.workload = replace(workload, running_since_us=oldest_us)

    def _count_held(self) -> None:
        self._held_by = {}
        devices: dict[tuple[str, int], int] = {}
        for work in self.live.values():
            workload = work.workload
            for replica in workload.replicas:
                for index in replica.placement.devices:
                    key = (replica.placement.node, index)
                    devices[key] = devices.get(key, 0) + workload.request.request_mgpu
                held = len(replica.placement.devices) * workload.request.request_mgpu
                project_id = workload.project_id
                self._held_by[project_id] = self._held_by.get(project_id, 0) + held
        self._broken = sum(WHOLE_GPU_MGPU - held for held in devices.values())


def _is_waiting(workload: Workload) -> bool:
    return len(workload.replicas) < workload.max_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of one project's work in a run; times in microseconds, amounts in mGPU x microseconds."""

    submitted: int = 0
    #: Of the work that started, in order; and what never did.
    waits_us: tuple[int, ...] = ()
    never_started: int = 0
    interruptions: int = 0
    held: int = 0
    #: What it was guaranteed and did not hold.
    unused: int = 0


def play(
    pool: SimulatedPool, work: Iterable[Work], *, from_us: int, to_us: int, every_us: int
) -> Iterator[int]:
    """Let ``work`` come and end until ``to_us``; yield the instant after each cycle.

    A cycle is run where something comes or ends, at most one in ``every_us``.
    """
    coming = sorted(work, key=lambda each: each.workload.submitted_at_us, reverse=True)
    pool.pass_time(to_us=from_us)
    pool.totals = Totals()
    now_us = from_us
    while True:
        arrival_us = coming[-1].workload.submitted_at_us if coming else None
        known = [each for each in (arrival_us, pool.next_end_us) if each is not None]
        if not known:
            break
        now_us = max(now_us, -(-min(known) // every_us) * every_us)
        if now_us >= to_us:
            break
        pool.pass_time(to_us=now_us)
        while coming and coming[-1].workload.submitted_at_us <= now_us:
            pool.add(coming.pop())
        pool.decide()
        yield now_us
    pool.pass_time(to_us=to_us)


def by_project(pool: SimulatedPool) -> dict[int, Played]:
    """Return what came of each project's work in a run that is over.

    Projects without work stand there too, for the guarantee that they did not use.
    """
    found: dict[int, list[Work]] = {
        project_id: [] for project_id, unused in pool.totals.unused_by.items() if unused
    }
    for work in (*pool.done, *pool.live.values()):
        found.setdefault(work.workload.project_id, []).append(work)
    return {
        project_id: Played(
            submitted=len(works),
            waits_us=tuple(
                sorted(
                    each.first_started_at_us - each.workload.submitted_at_us
                    for each in works
                    if each.first_started_at_us is not None
                )
            ),
            never_started=sum(each.first_started_at_us is None for each in works),
            interruptions=sum(each.interruptions for each in works),
            held=pool.totals.held_by.get(project_id, 0),
            unused=pool.totals.unused_by.get(project_id, 0),
        )
        for project_id, works in found.items()
    }
