"""Nodes and their devices: what each holds, and whether new work may come."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import models
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.queries.pool_state import NodeState, PoolState, load_pool_state
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """What one workload holds of a device; ``workload_id`` 0: work outside the reader's scope."""

    workload_id: int
    name: str
    project_name: str
    color: int
    mgpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One GPU with what is on it."""

    index: int
    model: str
    memory_mib: int | None
    virtual: bool
    healthy: bool
    #: None: not told, since the cluster's setting hides what others hold.
    free_mgpu: int | None
    held: tuple[OnDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One machine."""

    node: NodeState
    held_mgpu: int
    #: As a device's.
    free_mgpu: int | None
    devices: tuple[DeviceRow, ...]


def list_nodes(*, visible: Visibility, pool_name: str = "") -> tuple[NodeRow, ...]:
    """Return the nodes of a pool by name."""
    state = load_pool_state(visible=visible, pool_name=pool_name)
    if state is None:
        return ()
    return tuple(_node(state, node) for node in state.nodes)


def _node(state: PoolState, node: NodeState) -> NodeRow:
    held: dict[int, list[OnDevice]] = {device.id: [] for device in node.devices}
    for replica in state.replicas:
        workload = state.workloads[replica.workload_id]
        project = state.projects[workload.project_id]
        for device_id, mgpu in replica.holdings:
            if device_id in held:
                held[device_id].append(
                    OnDevice(
                        workload_id=workload.id,
                        name=workload.name,
                        project_name=project.name,
                        color=project.color,
                        mgpu=mgpu,
                    )
                )
    devices = []
    for device in node.devices:
        if device.others_mgpu:
            held[device.id].append(
                OnDevice(workload_id=0, name="", project_name="", color=0, mgpu=device.others_mgpu)
            )
        used_mgpu = sum(part.mgpu for part in held[device.id])
        devices.append(
            DeviceRow(
                index=device.index,
                model=device.model or node.gpu_model,
                memory_mib=device.memory_mib,
                virtual=device.virtual,
                healthy=device.healthy,
                free_mgpu=WHOLE_GPU_MGPU - used_mgpu if state.tells_others else None,
                held=tuple(held[device.id]),
            )
        )
    held_mgpu = sum(part.mgpu for device in devices for part in device.held)
    return NodeRow(
        node=node,
        held_mgpu=held_mgpu,
        free_mgpu=WHOLE_GPU_MGPU * len(devices) - held_mgpu if state.tells_others else None,
        devices=tuple(devices),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSize:
    """One size of device in a pool. ``fixed_mib``: what an empty process was measured to take there."""

    model: str
    memory_mib: int
    fixed_mib: int | None


def list_device_sizes(*, pool_id: int) -> tuple[DeviceSize, ...]:
    """Return the sizes of devices in a pool, the smallest first."""
    measured = dict(models.GpuFixedCost.objects.values_list("gpu_model", "fixed_mib"))
    rows = models.Device.objects.filter(node__pool_id=pool_id, memory_mib__isnull=False)
    sizes = rows.order_by("memory_mib", "model").values_list("memory_mib", "model").distinct()
    return tuple(
        DeviceSize(model=model, memory_mib=mib, fixed_mib=measured.get(model))
        for mib, model in sizes
        if mib is not None
    )
