"""Shapes: what one replica needs and where it may go. Requests that are alike share one shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.snapshot import Node, Workload
from scheduler.core.units import WHOLE_GPU_MGPU, fraction_mib, memory_request_mgpu

#: What identifies a shape; plain values, so that it hashes fast and sorts the same everywhere.
ShapeKey = tuple[
    int,
    int,
    int,
    int,
    int,
    tuple[tuple[str, str], ...],
    tuple[str, ...] | None,
    tuple[str, ...],
]


@dataclass(slots=True, eq=False, kw_only=True)
class Shape:
    """What one replica needs, and the nodes that match. ``gpu_memory_mib`` 0: a share is asked for."""

    key: ShapeKey
    devices: int
    request_mgpu: int
    gpu_memory_mib: int
    cpu_milli: int
    memory_mib: int
    models: frozenset[str]
    #: Positions of the nodes that match by labels, name and GPU type and take new work.
    nodes: tuple[int, ...] = ()
    #: Per device on the cheapest matching card; what order and entitlement count.
    cheapest_mgpu: int = 0
    #: (mGPU, MiB) of one device by the card's memory; None where it cannot fit.
    costs: dict[int, tuple[int, int] | None] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Test whether it needs wholly free devices."""
        return self.devices > 0 and not self.gpu_memory_mib and self.request_mgpu == WHOLE_GPU_MGPU

    @property
    def replica_mgpu(self) -> int:
        """What one replica counts as for queues, on the cheapest matching card."""
        return self.devices * self.cheapest_mgpu

    def cost_on(self, card_mib: int) -> tuple[int, int] | None:
        """Return (mGPU, MiB) that one device of ``card_mib`` (0: unknown) gives up."""
        try:
            return self.costs[card_mib]
        except KeyError:
            cost = self.costs[card_mib] = self._cost_on(card_mib)
            return cost

    def _cost_on(self, card_mib: int) -> tuple[int, int] | None:
        if not self.gpu_memory_mib:
            mib = fraction_mib(request_mgpu=self.request_mgpu, device_mib=card_mib)
            return self.request_mgpu, mib
        if self.gpu_memory_mib > card_mib:
            return None
        mgpu = memory_request_mgpu(request_mib=self.gpu_memory_mib, device_mib=card_mib)
        return mgpu, self.gpu_memory_mib


def shape_key(workload: Workload) -> ShapeKey:
    """Return what tells the shape of ``workload``'s replicas from others."""
    request = workload.request
    allowed = workload.allowed_nodes
    return (
        request.devices,
        0 if request.gpu_memory_mib else request.request_mgpu,
        (request.gpu_memory_mib or 0) if request.devices else 0,
        request.cpu_milli,
        request.memory_mib,
        tuple(sorted(workload.node_labels.items())) if workload.node_labels else (),
        None if allowed is None else tuple(sorted(allowed)),
        tuple(sorted(workload.gpu_models)) if workload.gpu_models else (),
    )


class Shapes:
    """The shapes of one snapshot, each made once."""

    __slots__ = ("_by_key", "_matching", "_nodes", "_plain")

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._nodes = nodes
        self._by_key: dict[ShapeKey, Shape] = {}
        #: By labels, names and models.
        self._matching: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._plain: dict[tuple[int, int, int | None, int, int], Shape] = {}

    def of(self, workload: Workload) -> Shape:
        """Return the shape of ``workload``'s replicas."""
        request = workload.request
        bound = workload.node_labels or workload.gpu_models or workload.allowed_nodes is not None
        plain = (
            request.devices,
            request.request_mgpu,
            request.gpu_memory_mib,
            request.cpu_milli,
            request.memory_mib,
        )
        if not bound and (known := self._plain.get(plain)):
            return known
        shape = self._intern(shape_key(workload))
        if not bound:
            self._plain[plain] = shape
        return shape

    def without_nodes(self, shape: Shape, barred: frozenset[int]) -> Shape:
        """Return ``shape`` kept away from the nodes at the positions ``barred``."""
        left = tuple(position for position in shape.nodes if position not in barred)
        if len(left) == len(shape.nodes):
            return shape
        names = tuple(sorted(self._nodes[position].name for position in left))
        return self._intern((*shape.key[:6], names, shape.key[7]))

    def _intern(self, key: ShapeKey) -> Shape:
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = self._make(key)
        return shape

    def _make(self, key: ShapeKey) -> Shape:
        devices, request_mgpu, gpu_memory_mib, cpu_milli, memory_mib, labels, allowed, models = key
        shape = Shape(
            key=key,
            devices=devices,
            request_mgpu=request_mgpu,
            gpu_memory_mib=gpu_memory_mib,
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            models=frozenset(models),
        )
        shape.nodes = self._nodes_for(shape, labels, allowed)
        shape.cheapest_mgpu = self._cheapest_mgpu(shape)
        return shape

    def _nodes_for(
        self, shape: Shape, labels: tuple[tuple[str, str], ...], allowed: tuple[str, ...] | None
    ) -> tuple[int, ...]:
        """Return the positions of the nodes that match; shapes that are bound alike share them."""
        key = (labels, allowed, shape.models)
        found = self._matching.get(key)
        if found is None:
            names = None if allowed is None else frozenset(allowed)
            found = self._matching[key] = tuple(
                position
                for position, node in enumerate(self._nodes)
                if node.schedulable
                and (names is None or node.name in names)
                and has_labels(node, labels)
                and has_model(node, shape)
            )
        return found

    def _cheapest_mgpu(self, shape: Shape) -> int:
        """Return the cost of one device on the cheapest matching card; a whole one if none matches."""
        if not shape.gpu_memory_mib:
            return shape.request_mgpu
        cards = {
            device.memory_mib or 0
            for position in shape.nodes
            for device in self._nodes[position].devices
            if device.healthy and (not shape.models or device.model in shape.models)
        }
        costs = [cost[0] for cost in map(shape.cost_on, sorted(cards)) if cost is not None]
        return min(costs, default=WHOLE_GPU_MGPU)


def has_labels(node: Node, labels: Iterable[tuple[str, str]]) -> bool:
    """Test whether ``node`` carries every one of ``labels``."""
    return all(node.labels.get(name) == value for name, value in labels)


def has_model(node: Node, shape: Shape) -> bool:
    """Test whether some device of ``node`` is of a model that ``shape`` may use."""
    return not shape.models or any(device.model in shape.models for device in node.devices)
