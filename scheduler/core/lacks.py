"""Check 3 told in numbers: why no device takes a request, node by node, and what would fit."""

from __future__ import annotations

from collections import Counter
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


class _Tally:
    """What is free for one shape, node by node and in all. Follows the log of the books."""

    __slots__ = ("_books", "_empty", "_nodes", "_seen", "_shape", "asked", "free", "lacks", "most")

    def __init__(self, session: Session, books: Books, shape: Shape) -> None:
        self._books = books
        self._empty = session.placer(session.empty_books).slots(shape).by_node
        self._shape = shape
        self._seen = len(books.log)
        #: What one replica asks for, by resource, in the order in which it is told.
        self.asked = _asked(shape)
        #: By resource and node: what is free there, and the most that one replica would get.
        self.free: dict[str, dict[int, int]] = {name: {} for name in self.asked}
        self.most: dict[str, dict[int, int]] = {name: {} for name in self.asked}
        #: By node, what it lacks, if anything.
        self.lacks: dict[int, Lack | None] = {}
        for at, node in enumerate(session.nodes):
            if at not in self._empty:
                self.lacks[at] = _mismatch(node, shape)
            elif not self._empty[at]:
                self.lacks[at] = _capacity_lack(session.empty_books.nodes[at], shape)
        for at in shape.nodes:
            self._count(at)

    def follow(self) -> None:
        """Count anew on the nodes that changed since the last call."""
        log = self._books.log
        if self._seen != len(log):
            for at in set(log[self._seen :]):
                if at in self._empty:
                    self._count(at)
            self._seen = len(log)

    def _count(self, at: int) -> None:
        shape, book = self._shape, self._books.nodes[at]
        for resource in self.asked:
            self.free[resource][at] = _free(book, shape, resource)
            self.most[resource][at] = _most(book, shape, resource)
        if self._empty[at]:
            self.lacks[at] = None if book.slots(shape) else _room_lack(book, shape)


class Shortages:
    """Finds shortages in one set of books. What holds for a shape is found once for each state of them."""

    def __init__(self, session: Session, books: Books) -> None:
        self._session = session
        self._books = books
        self._tallies: dict[Shape, _Tally] = {}

    def is_of(self, books: Books) -> bool:
        """Test whether these are shortages in ``books``."""
        return self._books is books

    def find(self, shape: Shape, count: int) -> Shortage:
        """Return why ``count`` replicas of ``shape`` have no place."""
        tally = self._tallies.get(shape)
        if tally is None:
            tally = self._tallies[shape] = _Tally(self._session, self._books, shape)
        tally.follow()
        resource, free = _short_total(tally, count)
        asked = tally.asked[resource] * count
        reason = Reason.INSUFFICIENT_RESOURCES if free < asked else Reason.FRAGMENTED
        if not self._session.placer(self._session.empty_books).slots(shape).total:
            reason, asked = Reason.NO_MATCHING_NODE, tally.asked[resource]
        counts = Counter(lack for lack in tally.lacks.values() if lack is not None)
        return Shortage(
            reason=reason,
            resource=resource,
            requested=asked,
            free=free,
            largest=max(tally.most[resource].values(), default=0),
            lacks={lack.value: counts[lack] for lack in sorted(counts)},
        )


def _asked(shape: Shape) -> dict[str, int]:
    """Return what one replica asks for, by resource."""
    asked = {}
    if shape.devices:
        asked["gpu"] = shape.replica_mgpu
    if shape.devices and shape.gpu_memory_mib:
        asked["gpu_memory"] = shape.gpu_memory_mib * shape.devices
    if shape.cpu_milli:
        asked["cpu"] = shape.cpu_milli
    if shape.memory_mib:
        asked["memory"] = shape.memory_mib
    return asked or {"gpu": 0}


def _short_total(tally: _Tally, count: int) -> tuple[str, int]:
    """Return what is short in all, with how much is free; GPU, or what is asked, if nothing is."""
    totals = [(resource, sum(free.values())) for resource, free in tally.free.items()]
    short = (row for row in totals if row[1] < tally.asked[row[0]] * count)
    return next(short, totals[0])


def _free(node: NodeBook, shape: Shape, resource: str) -> int:
    """Return how much of ``resource`` is free on ``node``, on the devices that ``shape`` may use."""
    if resource == "cpu":
        return max(0, node.free_cpu_milli)
    if resource == "memory":
        return max(0, node.free_memory_mib)
    if resource == "gpu_memory":
        return sum(_free_mib(node, shape))
    return sum(_usable(node, shape)) if shape.devices else 0


def _room_lack(book: NodeBook, shape: Shape) -> Lack:
    if book.free_cpu_milli < shape.cpu_milli:
        return Lack.CPU
    if book.free_memory_mib < shape.memory_mib:
        return Lack.MEMORY
    return Lack.GPU_FRAGMENTED if sum(_usable(book, shape)) >= shape.replica_mgpu else Lack.GPU


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
