"""Check 3 told in numbers: why no device takes a request, node by node, and what would fit."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.books import Books, NodeBook
from scheduler.core.session import Session
from scheduler.core.shape import Shape, has_labels, has_model
from scheduler.core.snapshot import Node
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Lack, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a request has no place. Amounts are in the unit of ``resource``."""

    reason: Reason
    resource: str
    requested: int
    free: int
    largest: int
    lacks: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Total:
    """What is free of one resource on the matching nodes, and what one replica asks for."""

    resource: str
    free: int
    asked: int


class Shortages:
    """Finds shortages in one state of the books. What holds for a shape is found once."""

    def __init__(self, session: Session, books: Books) -> None:
        self._session = session
        self._books = books
        self._totals: dict[Shape, list[_Total]] = {}
        self._lacks: dict[Shape, dict[str, int]] = {}
        self._largest: dict[tuple[Shape, str], int] = {}
        #: By node, what its devices leave free in all.
        self._free_mgpu: list[int] | None = None

    def find(self, shape: Shape, count: int) -> Shortage:
        """Return why ``count`` replicas of ``shape`` have no place."""
        total = self._short_total(shape, count)
        asked = total.asked * count
        reason = Reason.INSUFFICIENT_RESOURCES if total.free < asked else Reason.FRAGMENTED
        if not self._session.placer(self._session.empty_books).slots(shape).total:
            reason, asked = Reason.NO_MATCHING_NODE, total.asked
        return Shortage(
            reason=reason,
            resource=total.resource,
            requested=asked,
            free=total.free,
            largest=self._find_largest(shape, total.resource),
            lacks=self._find_lacks(shape),
        )

    def _short_total(self, shape: Shape, count: int) -> _Total:
        """Return what is short in all; of GPU, or of what is asked, if nothing is."""
        totals = self._totals.get(shape)
        if totals is None:
            totals = self._totals[shape] = self._sum_up(shape)
        return next((row for row in totals if row.free < row.asked * count), totals[0])

    def _sum_up(self, shape: Shape) -> list[_Total]:
        nodes = [self._books.nodes[at] for at in shape.nodes]
        rows = []
        if shape.devices:
            free_mgpu = sum(self._free_on(node, shape) for node in nodes)
            rows.append(_Total(resource="gpu", free=free_mgpu, asked=shape.replica_mgpu))
        if shape.devices and shape.gpu_memory_mib:
            free_mib = sum(sum(_free_mib(node, shape)) for node in nodes)
            asked_mib = shape.gpu_memory_mib * shape.devices
            rows.append(_Total(resource="gpu_memory", free=free_mib, asked=asked_mib))
        if shape.cpu_milli:
            free_cpu = sum(max(0, node.free_cpu_milli) for node in nodes)
            rows.append(_Total(resource="cpu", free=free_cpu, asked=shape.cpu_milli))
        if shape.memory_mib:
            free_memory = sum(max(0, node.free_memory_mib) for node in nodes)
            rows.append(_Total(resource="memory", free=free_memory, asked=shape.memory_mib))
        return rows or [_Total(resource="gpu", free=0, asked=0)]

    def _free_on(self, node: NodeBook, shape: Shape) -> int:
        """Return what the devices of ``node`` that ``shape`` may use leave free in all."""
        if shape.models:
            return sum(_usable(node, shape))
        if self._free_mgpu is None:
            self._free_mgpu = [
                sum([mgpu for mgpu in each.free_mgpu if mgpu > 0]) for each in self._books.nodes
            ]
        return self._free_mgpu[node.position]

    def _find_largest(self, shape: Shape, resource: str) -> int:
        largest = self._largest.get((shape, resource))
        if largest is None:
            nodes = [self._books.nodes[at] for at in shape.nodes]
            largest = max((_most(node, shape, resource) for node in nodes), default=0)
            self._largest[shape, resource] = largest
        return largest

    def _find_lacks(self, shape: Shape) -> dict[str, int]:
        lacks = self._lacks.get(shape)
        if lacks is None:
            lacks = self._lacks[shape] = self._count_lacks(shape)
        return lacks

    def _count_lacks(self, shape: Shape) -> dict[str, int]:
        counts: dict[Lack, int] = {}
        slots = self._session.placer(self._books).slots(shape).by_node
        empty = self._session.placer(self._session.empty_books).slots(shape).by_node
        for at, node in enumerate(self._session.nodes):
            if slots.get(at):
                continue
            if at not in slots:
                lack = _mismatch(node, shape)
            elif not empty[at]:
                lack = _capacity_lack(self._session.empty_books.nodes[at], shape)
            else:
                lack = self._room_lack(self._books.nodes[at], shape)
            counts[lack] = counts.get(lack, 0) + 1
        return {lack.value: counts[lack] for lack in sorted(counts)}

    def _room_lack(self, book: NodeBook, shape: Shape) -> Lack:
        if book.free_cpu_milli < shape.cpu_milli:
            return Lack.CPU
        if book.free_memory_mib < shape.memory_mib:
            return Lack.MEMORY
        enough = self._free_on(book, shape) >= shape.replica_mgpu
        return Lack.GPU_FRAGMENTED if enough else Lack.GPU


def _mismatch(node: Node, shape: Shape) -> Lack:
    """Return why ``node`` is not among the nodes of ``shape``."""
    if not node.schedulable:
        return Lack.NOT_SCHEDULABLE
    if has_labels(node, shape.key[5]) and not has_model(node, shape):
        return Lack.GPU_MODEL
    return Lack.LABELS


def _capacity_lack(empty: NodeBook, shape: Shape) -> Lack:
    if empty.free_cpu_milli < shape.cpu_milli:
        return Lack.CPU
    if empty.free_memory_mib < shape.memory_mib:
        return Lack.MEMORY
    return Lack.DEVICES


def _most(node: NodeBook, shape: Shape, resource: str) -> int:
    """Return the most of ``resource`` that one replica of this kind would get on ``node`` now."""
    if resource == "cpu":
        return max(0, node.free_cpu_milli)
    if resource == "memory":
        return max(0, node.free_memory_mib)
    if shape.is_whole and not shape.models:
        return node.free_mgpu.count(WHOLE_GPU_MGPU) * WHOLE_GPU_MGPU
    free = _free_mib(node, shape) if resource == "gpu_memory" else _usable(node, shape)
    if shape.is_whole:
        return free.count(WHOLE_GPU_MGPU) * WHOLE_GPU_MGPU
    if len(free) < shape.devices:
        return 0
    if shape.devices == 1:
        return max(free)
    return sorted(free, reverse=True)[shape.devices - 1] * shape.devices


def _usable(node: NodeBook, shape: Shape) -> list[int]:
    """Return the free amounts of the devices that ``shape`` may use."""
    if not shape.models:
        return [mgpu for mgpu in node.free_mgpu if mgpu > 0]
    return [
        mgpu
        for mgpu, model in zip(node.free_mgpu, node.models, strict=True)
        if mgpu > 0 and model in shape.models
    ]


def _free_mib(node: NodeBook, shape: Shape) -> list[int]:
    return [
        mib
        for mib, mgpu, model in zip(node.free_mib, node.free_mgpu, node.models, strict=True)
        if mgpu > 0 and mib > 0 and (not shape.models or model in shape.models)
    ]
