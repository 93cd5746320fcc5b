"""The cluster map as it was at a decision, from the ledger: who held what, and who was then told to go."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduler import models
from scheduler.core.instants import from_us, to_us
from scheduler.core.vocabulary import Kind
from scheduler.queries.cluster_map import FOREIGN, LEAVING, ClusterMap, MapWorkload, Slice
from scheduler.queries.history import DecisionRow, read_decision
from scheduler.queries.pool_state import DeviceState, NodeState
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMap:
    """What was held when a decision was made; those that it interrupted are marked as leaving."""

    decision: DecisionRow
    at: datetime
    pool_name: str
    map: ClusterMap
    #: Project id to name and color.
    projects: dict[int, tuple[str, int]]


def read_past_map(*, visible: Visibility, decision_id: int) -> PastMap | None:
    """Return the map at a decision that the reader may see; None: no such decision, or of no pool.

    Nodes are those of today. What runs on one since, and what ended before, is not on it.
    """
    decision = read_decision(visible=visible, decision_id=decision_id)
    if decision is None:
        return None
    row = models.Decision.objects.select_related("pool").get(pk=decision_id)
    if row.pool is None:
        return None
    at_us = to_us(row.at)
    victims = set(
        row.parties.filter(role=models.DecisionParty.Role.VICTIM).values_list(
            "workload_id", flat=True
        )
    )
    nodes = _nodes(row.pool)
    slices, workloads, projects = _held(
        row.pool, at_us=at_us, visible=visible, nodes=nodes, victims=victims
    )
    return PastMap(
        decision=decision,
        at=row.at,
        pool_name=row.pool.name,
        map=ClusterMap(nodes=nodes, slices=slices, workloads=workloads),
        projects=projects,
    )


def _held(
    pool: models.NodePool,
    *,
    at_us: int,
    visible: Visibility,
    nodes: tuple[NodeState, ...],
    victims: set[int],
) -> tuple[dict[int, tuple[Slice, ...]], dict[int, MapWorkload], dict[int, tuple[str, int]]]:
    devices = {(node.id, device.index): device.id for node in nodes for device in node.devices}
    seen = set(models.Project.objects.filter(visible.projects()).values_list("id", flat=True))
    slices: dict[int, list[Slice]] = defaultdict(list)
    others: dict[int, int] = defaultdict(int)
    workloads: dict[int, MapWorkload] = {}
    projects: dict[int, tuple[str, int]] = {}
    rows = (
        models.AllocationInterval.objects.filter(
            Q(to_us__isnull=True) | Q(to_us__gt=at_us), pool=pool, from_us__lt=at_us
        )
        .select_related("workload", "project")
        .order_by("from_us", "id")
    )
    for row in rows:
        share_mgpu = row.mgpu // max(1, len(row.devices))
        places = [
            devices[row.node_id, index] for index in row.devices if (row.node_id, index) in devices
        ]
        if row.project_id not in seen:
            for device_id in places:
                others[device_id] += share_mgpu
            continue
        flags = LEAVING if row.workload_id in victims else 0
        for device_id in places:
            slices[device_id].append(
                Slice(workload_id=row.workload_id, mgpu=share_mgpu, flags=flags)
            )
        workloads[row.workload_id] = _workload(row)
        projects[row.project_id] = (row.project.name, row.project.color)
    if visible.tells_others:
        for device_id, mgpu in others.items():
            slices[device_id].append(Slice(workload_id=FOREIGN, mgpu=mgpu, flags=0))
    return {key: tuple(parts) for key, parts in slices.items()}, workloads, projects


def _workload(row: models.AllocationInterval) -> MapWorkload:
    return MapWorkload(
        id=row.workload_id,
        name=row.workload.name,
        project_id=row.project_id,
        kind=Kind(row.kind),
        gang=len(row.devices) > 1,
        preemptible=row.preemptible,
        running_since=from_us(row.from_us),
        utilization_permille=None,
    )


def _nodes(pool: models.NodePool) -> tuple[NodeState, ...]:
    found = models.Node.objects.filter(pool=pool).prefetch_related("devices").order_by("name")
    return tuple(
        NodeState(
            id=node.id,
            name=node.name,
            gpu_model=node.gpu_model,
            virtual=node.virtual,
            lost=False,
            cordoned=False,
            draining=False,
            last_seen_at=node.last_seen_at,
            devices=tuple(
                DeviceState(
                    id=device.id,
                    node_id=node.id,
                    index=device.index,
                    memory_mib=device.memory_mib,
                    model=device.model,
                    virtual=device.virtual,
                    healthy=True,
                    allocated_mgpu=0,
                    others_mgpu=0,
                )
                for device in sorted(node.devices.all(), key=lambda each: each.index)
            ),
        )
        for node in found
    )
