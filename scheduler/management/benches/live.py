"""A live pool to measure kept state on: work ends and comes, plans are carried out, cycle by cycle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from scheduler.core.kept import Change
from scheduler.core.plan import Evict, Plan
from scheduler.core.snapshot import Placement, Replica, Snapshot, Workload
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.management.benches.pools import NOW_US, PoolSize, make_workload

SECOND_US = 1_000_000


class LivePool:
    """The facts of a pool from cycle to cycle, a second apart. What is stopped is gone a cycle later."""

    def __init__(self, snapshot: Snapshot, size: PoolSize) -> None:
        self._snapshot = snapshot
        self._size = size
        self._draw = Random(size.seed)
        self._facts = {each.id: each for each in snapshot.workloads}
        self._changed: dict[int, None] = {}
        self._last_id = max(self._facts)
        self._last_replica_id = max(
            (replica.id for each in snapshot.workloads for replica in each.replicas), default=0
        )
        self.now_us = NOW_US

    def snapshot(self) -> Snapshot:
        """Return the facts whole."""
        return replace(self._snapshot, workloads=tuple(self._facts.values()))

    def carry_out(self, plan: Plan) -> None:
        """Let the facts be what ``plan`` makes of them: victims are being stopped, places kept."""
        for decision in plan.decisions:
            if not isinstance(decision, Evict):
                self._start(decision.workload_id, len(decision.placements), decision.placements)
                continue
            for victim in decision.victims:
                self._stop(victim.workload_id, set(victim.replica_ids), decision.served_id)
            if decision.served_id is not None:
                served = self._facts[decision.served_id]
                self._set(replace(served, nominated=served.nominated + decision.placements))

    def step(self, count: int) -> Change:
        """Let ``count`` that run end and as many come; return all that changed since the last call."""
        self.now_us += SECOND_US
        running = [each.id for each in self._facts.values() if each.replicas]
        gone = self._draw.sample(running, count)
        for workload_id in gone:
            del self._facts[workload_id]
            self._changed.pop(workload_id, None)
        for _ in range(count):
            self._last_id += 1
            self._set(make_workload(self._draw, self._last_id, self._size))
        for workload in list(self._facts.values()):
            if any(each.phase is ReplicaPhase.STOPPING for each in workload.replicas):
                left = [r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING]
                self._set(replace(workload, replicas=tuple(left)))
        changed, self._changed = self._changed, {}
        return Change(workloads=[self._facts[each] for each in changed], gone=gone)

    def _set(self, workload: Workload) -> None:
        self._facts[workload.id] = workload
        self._changed[workload.id] = None

    def _start(self, workload_id: int, count: int, placements: tuple[Placement, ...]) -> None:
        workload = self._facts[workload_id]
        first = self._last_replica_id + 1
        self._last_replica_id += count
        new = tuple(
            Replica(id=first + number, placement=placement, started_at_us=self.now_us)
            for number, placement in enumerate(placements)
        )
        since_us = workload.running_since_us or self.now_us
        replicas = workload.replicas + new
        self._set(replace(workload, replicas=replicas, nominated=(), running_since_us=since_us))

    def _stop(self, workload_id: int, ids: set[int], served_id: int | None) -> None:
        workload = self._facts[workload_id]
        replicas = tuple(
            replace(each, phase=ReplicaPhase.STOPPING, vacated_for_id=served_id)
            if each.id in ids
            else each
            for each in workload.replicas
        )
        is_whole = all(each.phase is ReplicaPhase.STOPPING for each in replicas)
        since_us = None if is_whole else workload.running_since_us
        self._set(replace(workload, replicas=replicas, running_since_us=since_us))
