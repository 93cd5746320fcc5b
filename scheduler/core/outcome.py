"""The snapshot that comes of a plan: what it starts runs, what it interrupts waits again."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.plan import Evict, Plan
from scheduler.core.snapshot import Replica, Snapshot, Workload


def carry_out(snapshot: Snapshot, plan: Plan, *, now_us: int) -> Snapshot:
    """Return the state after ``plan``, evictions complete at once. New replicas have ids below 0."""
    workloads = {each.id: each for each in snapshot.workloads}
    new_id = 0
    for decision in plan.decisions:
        if isinstance(decision, Evict):
            for victim in decision.victims:
                left = workloads[victim.workload_id]
                gone = set(victim.replica_ids)
                kept = tuple(each for each in left.replicas if each.id not in gone)
                workloads[left.id] = _with_replicas(left, kept)
            continue
        started = workloads[decision.workload_id]
        replicas = list(started.replicas)
        for placement in decision.placements:
            new_id -= 1
            replicas.append(Replica(id=new_id, placement=placement, started_at_us=now_us))
        workloads[started.id] = _with_replicas(started, tuple(replicas))
    return replace(snapshot, workloads=tuple(workloads.values()))


def _with_replicas(workload: Workload, replicas: tuple[Replica, ...]) -> Workload:
    since_us = min((each.started_at_us for each in replicas), default=None)
    return replace(workload, replicas=replicas, running_since_us=since_us, nominated=())
