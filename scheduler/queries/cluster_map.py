"""The cluster map: nodes, their devices, and the slices that work holds on each. Pure over PoolState."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.core.vocabulary import Kind, ReplicaPhase
from scheduler.queries import borrowing
from scheduler.queries.pool_state import NodeState, PoolState

IDLE = 1
BORROWED_SIBLINGS = 2
BORROWED_DEPARTMENTS = 4
LEAVING = 8
ARRIVING = 16
NO_METRICS = 32

#: A slice of work outside the reader's scope.
FOREIGN = 0
#: A sample older than this is no sample.
SAMPLE_FRESH_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one workload holds of one device; ``workload_id`` 0 stands for all others together."""

    workload_id: int
    mgpu: int
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWorkload:
    """A workload that holds something, as the map names it."""

    id: int
    name: str
    project_id: int
    kind: Kind
    gang: bool
    preemptible: bool
    running_since: datetime | None
    utilization_permille: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMap:
    """Nodes in order, and by device id its slices in the order in which they started."""

    nodes: tuple[NodeState, ...]
    slices: dict[int, tuple[Slice, ...]]
    workloads: dict[int, MapWorkload]


def make_cluster_map(state: PoolState, *, now: datetime) -> ClusterMap:
    """Return the map of a pool's state."""
    borrowed = borrowing.borrowed_replicas(state)
    slices: dict[int, list[Slice]] = defaultdict(list)
    loads: dict[int, list[int]] = defaultdict(list)
    for replica in state.replicas:
        fresh = _is_fresh(replica.sampled_at, now=now)
        flags = _borrowed_flag(borrowed.get(replica.id))
        flags |= IDLE if replica.idle else 0
        flags |= LEAVING if replica.phase is ReplicaPhase.STOPPING else 0
        flags |= ARRIVING if replica.phase is ReplicaPhase.STARTING else 0
        settled = now - replica.booked_at > timedelta(seconds=SAMPLE_FRESH_S)
        if not fresh and settled and replica.phase is ReplicaPhase.RUNNING:
            flags |= NO_METRICS
        if fresh and replica.utilization_permille is not None:
            loads[replica.workload_id].append(replica.utilization_permille)
        for device_id, mgpu in replica.holdings:
            slices[device_id].append(Slice(workload_id=replica.workload_id, mgpu=mgpu, flags=flags))
    for node in state.nodes:
        for device in node.devices:
            if device.others_mgpu:
                slices[device.id].append(
                    Slice(workload_id=FOREIGN, mgpu=device.others_mgpu, flags=0)
                )
    holding = {replica.workload_id for replica in state.replicas}
    return ClusterMap(
        nodes=state.nodes,
        slices={device_id: tuple(parts) for device_id, parts in slices.items()},
        workloads={
            workload.id: MapWorkload(
                id=workload.id,
                name=workload.name,
                project_id=workload.project_id,
                kind=workload.kind,
                gang=workload.gang,
                preemptible=workload.preemptible,
                running_since=workload.running_since,
                utilization_permille=_mean(loads[workload.id]),
            )
            for workload in state.workloads.values()
            if workload.id in holding
        },
    )


def _borrowed_flag(lender: str | None) -> int:
    if lender is None:
        return 0
    return BORROWED_DEPARTMENTS if lender == borrowing.DEPARTMENTS else BORROWED_SIBLINGS


def _is_fresh(sampled_at: datetime | None, *, now: datetime) -> bool:
    return sampled_at is not None and now - sampled_at < timedelta(seconds=SAMPLE_FRESH_S)


def _mean(values: list[int]) -> int | None:
    return sum(values) // len(values) if values else None
