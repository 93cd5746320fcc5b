"""One node pool as a reader may see it, loaded once: tiles, map and tree are sums over the same rows.

Work of projects outside the reader's scope is here only as anonymous amounts on devices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from scheduler import models
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.queries.pool_columns import (
    DEVICE_FIELDS,
    LIVING_PHASES,
    REPLICA_FIELDS,
    WORKLOAD_FIELDS,
)
from scheduler.queries.pool_queues import (
    QueueState,
    find_open_departments,
    load_departments,
    load_projects,
)
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """A node pool that a reader may choose."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """One GPU. ``others_mgpu``: what projects outside the reader's scope hold of it."""

    id: int
    node_id: int
    index: int
    memory_mib: int | None
    model: str
    virtual: bool
    healthy: bool
    allocated_mgpu: int
    others_mgpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One machine and its devices in order."""

    id: int
    name: str
    gpu_model: str
    virtual: bool
    lost: bool
    cordoned: bool
    draining: bool
    last_seen_at: datetime | None
    devices: tuple[DeviceState, ...]

    @property
    def schedulable(self) -> bool:
        """Test whether new work may come."""
        return not (self.lost or self.cordoned or self.draining)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One living replica and what it holds: (device id, mGPU) pairs."""

    id: int
    workload_id: int
    node_id: int
    phase: ReplicaPhase
    booked_at: datetime
    stopping_at: datetime | None
    vacated_for_id: int | None
    stop_code: str
    mgpu: int
    idle: bool
    utilization_permille: int | None
    sampled_at: datetime | None
    holdings: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """One workload that runs or waits."""

    id: int
    name: str
    project_id: int
    kind: Kind
    phase: Phase
    priority: int
    preemptible: bool
    request_mgpu: int
    gpu_memory_mib: int | None
    gang: bool
    submitted_at: datetime
    phase_since: datetime
    running_since: datetime | None
    grace_s: int
    interruptions: int
    reason_code: str
    reason: Mapping[str, object]
    checkpoint: Mapping[str, object]
    checkpoint_at: datetime | None
    nominated: bool
    #: A service that wants no replica now: nobody waits.
    asleep: bool

    @property
    def waits(self) -> bool:
        """Test whether it waits for a place."""
        return self.phase is Phase.PENDING and not self.asleep


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """All that the pages of one pool are made from."""

    pool: PoolRow
    cluster: models.Cluster
    partial: bool
    nodes: tuple[NodeState, ...]
    replicas: tuple[ReplicaState, ...]
    workloads: Mapping[int, WorkloadState]
    departments: tuple[QueueState, ...]
    projects: Mapping[int, QueueState]
    #: Departments whose own figures may be shown; of the others only the name.
    open_department_ids: frozenset[int]

    @property
    def tells_others(self) -> bool:
        """Test whether amounts in use by others may be told, without names."""
        return not self.partial or self.cluster.show_others_in_use


def list_pools(*, visible: Visibility) -> tuple[PoolRow, ...]:
    """Return the pools that may be chosen, the oldest first."""
    pools = models.NodePool.objects.order_by("id")
    if not visible.scratch:
        pools = pools.filter(scratch=False)
    return tuple(PoolRow(id=pool.id, name=pool.name) for pool in pools)


def find_pool(*, visible: Visibility, pool_name: str = "") -> PoolRow | None:
    """Return the pool of that name, or the first; None where there is none."""
    pools = list_pools(visible=visible)
    return next((row for row in pools if row.name == pool_name), pools[0] if pools else None)


def load_pool_state(
    *,
    visible: Visibility,
    pool_name: str = "",
    pool: PoolRow | None = None,
    only: frozenset[int] | None = None,
) -> PoolState | None:
    """Return the pool of that name, or the first; None where there is none. Nine queries.

    ``pool``: the one that was found already.

    ``only``: with nothing but these workloads, what is being vacated for them, and the nodes that
    they are on, so that a page of a long table costs what it shows.
    """
    pool = pool or find_pool(visible=visible, pool_name=pool_name)
    if pool is None:
        return None
    projects = load_projects(visible=visible, pool_id=pool.id)
    replicas, others = _replicas(pool_id=pool.id, project_ids=frozenset(projects), only=only)
    cluster = models.Cluster.objects.filter(id=1).first() or models.Cluster(id=1)
    on_nodes = None if only is None else {replica.node_id for replica in replicas}
    named = None if only is None else only | {replica.workload_id for replica in replicas}
    workloads = _workloads(pool_id=pool.id, project_ids=frozenset(projects), only=named)
    return PoolState(
        pool=pool,
        cluster=cluster,
        partial=not visible.cluster,
        nodes=_nodes(
            pool_id=pool.id,
            others=others if cluster.show_others_in_use else {},
            only=on_nodes,
        ),
        # Work that ended, and was deleted, between the two queries has left with all it held.
        replicas=tuple(replica for replica in replicas if replica.workload_id in workloads),
        workloads=workloads,
        departments=load_departments(visible=visible, pool_id=pool.id),
        projects=projects,
        open_department_ids=find_open_departments(visible=visible),
    )


def _replicas(
    *, pool_id: int, project_ids: frozenset[int], only: frozenset[int] | None
) -> tuple[tuple[ReplicaState, ...], dict[int, int]]:
    """Return the reader's replicas, and by device what everybody else holds."""
    holdings: dict[int, list[tuple[int, int]]] = defaultdict(list)
    others: dict[int, int] = defaultdict(int)
    holds = models.ReplicaDevice.objects.filter(replica__workload__pool_id=pool_id)
    touching = None if only is None else _touching(only)
    if touching is not None:
        holds = holds.filter(replica_id__in=touching)
    held = holds.values_list("replica_id", "device_id", "mgpu", "replica__workload__project_id")
    for replica_id, device_id, mgpu, project_id in held.order_by("device_id"):
        if project_id in project_ids:
            holdings[replica_id].append((device_id, mgpu))
        else:
            others[device_id] += mgpu
    rows = models.Replica.objects.filter(
        workload__pool_id=pool_id, workload__project_id__in=project_ids
    ).exclude(phase=ReplicaPhase.ENDED)
    if touching is not None:
        rows = rows.filter(id__in=touching)
    states = tuple(
        ReplicaState(
            id=row.id,
            workload_id=row.workload_id,
            node_id=row.node_id,
            phase=ReplicaPhase(row.phase),
            booked_at=row.booked_at,
            stopping_at=row.stopping_at,
            vacated_for_id=row.vacated_for_id,
            stop_code=row.stop_code,
            mgpu=row.mgpu,
            idle=row.idle is True,
            utilization_permille=row.utilization_permille,
            sampled_at=row.sampled_at,
            holdings=tuple(holdings[row.id]),
        )
        for row in rows.order_by("booked_at", "id").values_list(*REPLICA_FIELDS, named=True)
    )
    return states, dict(others)


def _touching(workload_ids: frozenset[int]) -> QuerySet[models.Replica, int]:
    """Return what finds replicas of workloads and those that make room for them, each by its index."""
    live = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).values_list("id", flat=True)
    of, room = (
        live.filter(workload_id__in=workload_ids),
        live.filter(vacated_for_id__in=workload_ids),
    )
    return of.union(room)


def _nodes(
    *, pool_id: int, others: Mapping[int, int], only: set[int] | None
) -> tuple[NodeState, ...]:
    nodes = models.Node.objects.filter(pool_id=pool_id).order_by("name")
    devices = models.Device.objects.filter(node__pool_id=pool_id)
    if only is not None:
        nodes, devices = nodes.filter(pk__in=only), devices.filter(node_id__in=only)
    on_node: dict[int, list[DeviceState]] = defaultdict(list)
    for row in devices.order_by("node_id", "index").values_list(*DEVICE_FIELDS, named=True):
        on_node[row.node_id].append(_device(row, others_mgpu=others.get(row.id, 0)))
    return tuple(
        NodeState(
            id=node.id,
            name=node.name,
            gpu_model=node.gpu_model,
            virtual=node.virtual,
            lost=node.state == models.Node.State.LOST,
            cordoned=node.cordoned,
            draining=node.draining,
            last_seen_at=node.last_seen_at,
            devices=tuple(on_node[node.id]),
        )
        for node in nodes
    )


def _device(row: Any, *, others_mgpu: int) -> DeviceState:
    return DeviceState(
        id=row.id,
        node_id=row.node_id,
        index=row.index,
        memory_mib=row.memory_mib,
        model=row.model,
        virtual=row.virtual,
        healthy=row.healthy,
        allocated_mgpu=row.allocated_mgpu,
        others_mgpu=others_mgpu,
    )


def _workloads(
    *, pool_id: int, project_ids: frozenset[int], only: frozenset[int] | None
) -> dict[int, WorkloadState]:
    alive = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).values("workload_id")
    living = models.Workload.objects.filter(pool_id=pool_id, phase__in=LIVING_PHASES).values("id")
    rows = models.Workload.objects.filter(
        # Each half by an index of its own; "or" would look at all that has ended.
        pk__in=living.union(alive),
        pool_id=pool_id,
        project_id__in=project_ids,
        deleted_at__isnull=True,
    )
    if only is not None:
        rows = rows.filter(pk__in=only)
    nominated = frozenset(
        models.Nomination.objects.filter(workload__pool_id=pool_id).values_list(
            "workload_id", flat=True
        )
    )
    found = rows.values_list(*WORKLOAD_FIELDS, named=True)
    return {row.id: _workload(row, nominated=row.id in nominated) for row in found}


def _workload(row: Any, *, nominated: bool) -> WorkloadState:
    return WorkloadState(
        id=row.id,
        name=row.name,
        project_id=row.project_id,
        kind=Kind(row.kind),
        phase=Phase(row.phase),
        priority=row.priority,
        preemptible=row.preemptible,
        request_mgpu=asked_mgpu(row),
        gpu_memory_mib=row.gpu_memory_mib,
        gang=(row.kind != Kind.INFERENCE and row.min_replicas > 1) or row.devices > 1,
        submitted_at=row.submitted_at,
        phase_since=row.phase_since,
        running_since=row.running_since,
        grace_s=row.grace_s,
        interruptions=row.interruptions,
        reason_code=row.reason_code,
        reason=row.reason,
        checkpoint=row.checkpoint,
        checkpoint_at=row.checkpoint_at,
        nominated=nominated,
        asleep=is_asleep(row),
    )


def is_asleep(row: models.Workload | Any) -> bool:
    """Test whether it is a service at zero, which no request calls.

    ``row``: the workload, or a row of its columns.
    """
    is_service = row.kind == Kind.INFERENCE and row.phase == Phase.PENDING
    return bool(is_service and row.desired_replicas == 0)


def asked_mgpu(row: models.Workload | Any) -> int:
    """Return what a workload asks for in all: its replicas wanted now, each with its devices.

    ``row``: the workload, or a row of its columns.
    """
    replicas = row.desired_replicas if row.kind == Kind.INFERENCE else row.min_replicas
    return row.request_mgpu * row.devices * max(1, replicas)
