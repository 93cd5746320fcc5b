"""What a change of quotas would do to the map: the nodes that it touches, device by device, now and then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.snapshot import Device, Request, Snapshot
from scheduler.core.units import WHOLE_GPU_MGPU, memory_request_mgpu

#: Workload id to what is shown of it: name, project, color of the project. None: not the reader's.
Named = Callable[[int], tuple[str, str, int] | None]
#: By node and index of a device: workload id to mGPU.
_Held = Mapping[tuple[str, int], Mapping[int, int]]


class Mark(StrEnum):
    """What becomes of a slice."""

    STAYS = "stays"
    LEAVES = "leaves"
    COMES = "comes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A share of one device. Empty names: what others hold, all in one."""

    name: str
    project_name: str
    color: int
    from_mgpu: int
    mgpu: int
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChange:
    """One GPU before the change and after it."""

    index: int
    now: tuple[Slice, ...]
    then: tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """One node on which something would change, with all of its GPUs."""

    name: str
    devices: tuple[DeviceChange, ...]

    @property
    def moves(self) -> tuple[tuple[int, Slice], ...]:
        """Return the slices that leave and come, each with the index of its GPU."""
        return tuple(
            (device.index, each)
            for device in self.devices
            for each in (*device.now, *device.then)
            if each.mark is not Mark.STAYS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMap:
    """The nodes that a change touches, and how many stay as they are."""

    nodes: tuple[NodeChange, ...]
    unchanged: int


def map_of_change(
    *, before: Snapshot, after: Snapshot, named: Named, show_others: bool
) -> QuotaMap:
    """Return where two states of a pool differ, as far as its reader may see them.

    A node stands here only if a slice of the reader's own leaves it or comes to it; what others hold of
    its devices is one amount without a name, and nothing where ``show_others`` is off.
    """
    now, then = _held(before), _held(after)
    nodes = []
    for node in sorted(before.nodes, key=lambda each: each.name):
        found = NodeChange(
            name=node.name,
            devices=tuple(
                DeviceChange(
                    index=device.index,
                    now=_slices(
                        now[place], then[place], Mark.LEAVES, named, show_others=show_others
                    ),
                    then=_slices(
                        then[place], now[place], Mark.COMES, named, show_others=show_others
                    ),
                )
                for device in node.devices
                for place in ((node.name, device.index),)
            ),
        )
        if found.moves:
            nodes.append(found)
    return QuotaMap(nodes=tuple(nodes), unchanged=len(before.nodes) - len(nodes))


def _held(snapshot: Snapshot) -> _Held:
    held: dict[tuple[str, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    devices = {
        (node.name, device.index): device for node in snapshot.nodes for device in node.devices
    }
    for workload in snapshot.workloads:
        for replica in workload.replicas:
            for index in replica.placement.devices:
                place = (replica.placement.node, index)
                if place in devices:
                    held[place][workload.id] += _mgpu(workload.request, devices[place])
    return held


def _mgpu(request: Request, device: Device) -> int:
    if request.gpu_memory_mib is None:
        return request.request_mgpu
    if not device.memory_mib:
        return WHOLE_GPU_MGPU
    return memory_request_mgpu(request_mib=request.gpu_memory_mib, device_mib=device.memory_mib)


def _slices(
    own: Mapping[int, int],
    other: Mapping[int, int],
    changed: Mark,
    named: Named,
    *,
    show_others: bool,
) -> tuple[Slice, ...]:
    """Return one device's slices on one side; those of which the other side has less are ``changed``."""
    slices: list[Slice] = []
    offset_mgpu = others_mgpu = 0
    for workload_id, mgpu in sorted(own.items()):
        shown = named(workload_id)
        if shown is None:
            others_mgpu += mgpu
            continue
        name, project_name, color = shown
        mark = changed if other.get(workload_id, 0) < mgpu else Mark.STAYS
        slices.append(
            Slice(
                name=name,
                project_name=project_name,
                color=color,
                from_mgpu=offset_mgpu,
                mgpu=mgpu,
                mark=mark,
            )
        )
        offset_mgpu += mgpu
    if others_mgpu and show_others:
        slices.append(
            Slice(
                name="",
                project_name="",
                color=0,
                from_mgpu=offset_mgpu,
                mgpu=others_mgpu,
                mark=Mark.STAYS,
            )
        )
    return tuple(slices)
