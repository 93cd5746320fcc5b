"""Books: what is free on every device and node, and how many replicas of a shape still fit."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.shape import Shape
from scheduler.core.snapshot import UNLIMITED, Node
from scheduler.core.units import WHOLE_GPU_MGPU

#: The free amount of a device that takes nothing: no request reaches up from there.
UNUSABLE = -(10**9)
#: More replicas than any workload has; what fits where nothing is asked for.
PLENTY = 10**9


class NodeBook:
    """One node's free amounts. Devices are told by position; ``indices`` maps back to the index."""

    __slots__ = (
        "cards_mib",
        "free_cpu_milli",
        "free_memory_mib",
        "free_mgpu",
        "free_mib",
        "indices",
        "is_bounded",
        "is_uniform",
        "models",
        "name",
        "position",
        "version",
    )

    def __init__(self, node: Node, *, position: int) -> None:
        devices = sorted(node.devices, key=lambda device: device.index)
        self.position = position
        self.name = node.name
        self.version = 0
        self.indices = tuple(device.index for device in devices)
        self.models = tuple(device.model for device in devices)
        self.cards_mib = tuple(device.memory_mib or 0 for device in devices)
        #: All devices are of one model and size.
        self.is_uniform = len(set(self.models)) < 2 and len(set(self.cards_mib)) < 2
        usable = [device.healthy and node.schedulable for device in devices]
        self.free_mgpu = [WHOLE_GPU_MGPU if ok else UNUSABLE for ok in usable]
        self.free_mib = list(self.cards_mib)
        self.free_cpu_milli = UNLIMITED if node.cpu_milli is None else node.cpu_milli
        self.free_memory_mib = UNLIMITED if node.memory_mib is None else node.memory_mib
        self.is_bounded = node.cpu_milli is not None or node.memory_mib is not None

    def copy(self) -> NodeBook:
        """Return a book that can be written without touching this one."""
        twin = NodeBook.__new__(NodeBook)
        twin.position = self.position
        twin.name = self.name
        twin.version = self.version
        twin.indices = self.indices
        twin.models = self.models
        twin.cards_mib = self.cards_mib
        twin.is_uniform = self.is_uniform
        twin.is_bounded = self.is_bounded
        twin.free_mgpu = self.free_mgpu.copy()
        twin.free_mib = self.free_mib.copy()
        twin.free_cpu_milli = self.free_cpu_milli
        twin.free_memory_mib = self.free_memory_mib
        return twin

    def set_to(self, other: NodeBook) -> None:
        """Set the free amounts to those of ``other``, which is a book of the same node."""
        self.free_mgpu[:] = other.free_mgpu
        self.free_mib[:] = other.free_mib
        self.free_cpu_milli = other.free_cpu_milli
        self.free_memory_mib = other.free_memory_mib

    def positions_of(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of the devices with ``indices``; those not there are left out."""
        known = self.indices
        return tuple(known.index(index) for index in indices if index in known)

    def move(self, shape: Shape, positions: tuple[int, ...], sign: int) -> None:
        """Give back (``sign`` +1) or take (-1) one replica of ``shape`` at ``positions``."""
        costs = shape.costs
        for at in positions:
            card_mib = self.cards_mib[at]
            cost = costs[card_mib] if card_mib in costs else shape.cost_on(card_mib)
            if cost is None:
                cost = (WHOLE_GPU_MGPU, card_mib)
            self.free_mgpu[at] += sign * cost[0]
            self.free_mib[at] += sign * cost[1]
        self.free_cpu_milli += sign * shape.cpu_milli
        self.free_memory_mib += sign * shape.memory_mib

    def free_after(self, shape: Shape, positions: tuple[int, ...]) -> list[int]:
        """Return what is free of each device once a replica of ``shape`` is at ``positions``."""
        left = list(self.free_mgpu)
        for at in positions:
            cost = shape.cost_on(self.cards_mib[at])
            left[at] -= WHOLE_GPU_MGPU if cost is None else cost[0]
        return left

    def cost_at(self, shape: Shape, positions: Iterable[int]) -> int:
        """Return what one replica of ``shape`` at ``positions`` counts as for queues."""
        if not shape.gpu_memory_mib:
            return shape.devices * shape.request_mgpu
        costs = (shape.cost_on(self.cards_mib[at]) for at in positions)
        return sum(WHOLE_GPU_MGPU if cost is None else cost[0] for cost in costs)

    def device_slots(self, shape: Shape, at: int) -> int:
        """Return how many replicas of ``shape`` could use the device at position ``at``."""
        free_mgpu = self.free_mgpu[at]
        if free_mgpu <= 0 or (shape.models and self.models[at] not in shape.models):
            return 0
        cost = shape.cost_on(self.cards_mib[at])
        if cost is None:
            return 0
        mgpu, mib = cost
        slots = free_mgpu // mgpu
        if mib and slots:
            slots = min(slots, max(0, self.free_mib[at]) // mib)
        return slots

    def slots(self, shape: Shape) -> int:
        """Return how many replicas of ``shape`` fit here at once."""
        most = PLENTY
        if shape.cpu_milli:
            most = max(0, self.free_cpu_milli) // shape.cpu_milli
        if shape.memory_mib:
            most = min(most, max(0, self.free_memory_mib) // shape.memory_mib)
        if not shape.devices or not most:
            return most
        return min(most, self._gpu_slots(shape))

    def takes(self, shape: Shape) -> bool:
        """Test whether one replica of ``shape`` fits here."""
        if self.free_cpu_milli < shape.cpu_milli or self.free_memory_mib < shape.memory_mib:
            return False
        if not shape.devices:
            return True
        if shape.is_whole and not shape.models:
            return self.free_mgpu.count(WHOLE_GPU_MGPU) >= shape.devices
        if max(self.free_mgpu, default=0) < shape.cheapest_mgpu:
            return False
        able = 0
        for at in range(len(self.free_mgpu)):
            if self.device_slots(shape, at):
                able += 1
                if able == shape.devices:
                    return True
        return False

    def _gpu_slots(self, shape: Shape) -> int:
        if shape.is_whole and not shape.models:
            return self.free_mgpu.count(WHOLE_GPU_MGPU) // shape.devices
        each = [self.device_slots(shape, at) for at in range(len(self.free_mgpu))]
        if shape.devices == 1:
            return sum(each)
        fits = 0
        while sum(min(fits + 1, slots) for slots in each) >= (fits + 1) * shape.devices:
            fits += 1
        return fits


class Books:
    """All nodes' books, with a log of what changed so that indexes can follow."""

    __slots__ = ("log", "nodes", "position_of")

    def __init__(self, nodes: list[NodeBook]) -> None:
        self.nodes = nodes
        self.position_of = {node.name: node.position for node in nodes}
        self.log: list[int] = []

    def copy(self) -> Books:
        """Return books that can be written without touching these."""
        return Books([node.copy() for node in self.nodes])

    def move(self, position: int, shape: Shape, at: tuple[int, ...], sign: int) -> None:
        """Give back (+1) or take (-1) one replica on the node at ``position``, and log it."""
        node = self.nodes[position]
        node.move(shape, at, sign)
        node.version += 1
        self.log.append(position)

    def set_to_least(self, position: int, first: NodeBook, second: NodeBook) -> None:
        """Set the node at ``position`` to what is free in both ``first`` and ``second``."""
        node = self.nodes[position]
        node.free_mgpu = list(map(min, first.free_mgpu, second.free_mgpu))
        node.free_mib = list(map(min, first.free_mib, second.free_mib))
        node.free_cpu_milli = min(first.free_cpu_milli, second.free_cpu_milli)
        node.free_memory_mib = min(first.free_memory_mib, second.free_memory_mib)
        node.version += 1
        self.log.append(position)


def changed_since(log: list[int], seen: int, now: list[int]) -> set[int]:
    """Return the nodes that changed since ``log`` had come to ``seen``; ``now`` is the books' log by now,
    another one where they were copied meanwhile.
    """
    if log is now:
        return set(log[seen:])
    return {*log[seen:], *now}


def open_books(nodes: tuple[Node, ...]) -> Books:
    """Return the books of an empty cluster. ``nodes`` are sorted by name and keep their positions."""
    return Books([NodeBook(node, position=at) for at, node in enumerate(nodes)])
