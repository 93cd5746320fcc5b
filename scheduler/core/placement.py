"""Placement: which node and devices a replica gets. Bin-pack (fragmentation-aware) or spread."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.core.books import Books, NodeBook
from scheduler.core.mix import Mix
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: What a place is rated by, smallest first; the node's position, which is by name, decides last.
Rating = tuple[int, ...]
#: A number by which a place is preferred before its rating, smallest first.
_Preference = Callable[[NodeBook, tuple[int, ...]], int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one replica goes: the node's position, its devices' positions, what it counts as."""

    node: int
    devices: tuple[int, ...]
    mgpu: int


class Placer:
    """Finds places in one set of books. Ratings are kept for each shape and follow the log."""

    __slots__ = ("_indexes", "_slots", "books", "mix", "spread")

    def __init__(self, books: Books, *, mix: Mix, spread: bool) -> None:
        self.books = books
        self.mix = mix
        self.spread = spread
        self._indexes: dict[Shape, _Index] = {}
        self._slots: dict[Shape, SlotCount] = {}

    def slots(self, shape: Shape) -> SlotCount:
        """Return the count, kept up to date, of how many replicas of ``shape`` fit."""
        count = self._slots.get(shape)
        if count is None:
            count = self._slots[shape] = SlotCount(self.books, shape)
        count.follow()
        return count

    def find(self, shape: Shape, *, budget_mgpu: int | None = None) -> Place | None:
        """Return the best place for one replica of ``shape`` that counts for ``budget_mgpu`` at most."""
        if shape.gpu_memory_mib and budget_mgpu is not None:
            return self._find_within(shape, budget_mgpu)
        index = self._indexes.get(shape)
        if index is None:
            index = self._indexes[shape] = _Index(self, shape)
        return index.best()

    def _find_within(self, shape: Shape, budget_mgpu: int) -> Place | None:
        best: tuple[Rating, Place] | None = None
        for position in shape.nodes:
            node = self.books.nodes[position]
            for rating, devices in rated_choices(self, node, shape):
                place = Place(position, devices, node.cost_at(shape, devices))
                if place.mgpu <= budget_mgpu and (best is None or rating < best[0]):
                    best = (rating, place)
        return None if best is None else best[1]

    def place_all(self, shape: Shape, count: int, *, budget_mgpu: int | None) -> list[Place] | None:
        """Take places for ``count`` replicas, all or none. The caller gives them back or keeps them."""
        if self.slots(shape).total < count:
            return None
        places = self._take_in_turn(shape, count, budget_mgpu)
        if places is None and shape.gpu_memory_mib and count > 1:
            places = self._take_cheapest(shape, count, budget_mgpu)
        if places is None and shape.devices > 1:
            places = self._take_roomiest(shape, count, budget_mgpu)
        return places

    def take_within(self, shape: Shape, count: int, budget_mgpu: int) -> list[Place] | None:
        """Take places for a memory request that count for ``budget_mgpu`` at most, looking at all."""
        places = self._take_in_turn(shape, count, budget_mgpu)
        if places is None and count > 1:
            places = self._take_cheapest(shape, count, budget_mgpu)
        return places

    def give_back(self, shape: Shape, places: list[Place]) -> None:
        """Undo ``place_all``."""
        for place in places:
            self.books.move(place.node, shape, place.devices, 1)

    def _take_in_turn(self, shape: Shape, count: int, budget: int | None) -> list[Place] | None:
        places: list[Place] = []
        left = budget
        for still in range(count - 1, -1, -1):
            share = None if left is None else left - still * shape.replica_mgpu
            place = self.find(shape, budget_mgpu=share)
            if place is None:
                self.give_back(shape, places)
                return None
            self.books.move(place.node, shape, place.devices, -1)
            places.append(place)
            left = None if left is None else left - place.mgpu
        return places

    def _take_cheapest(self, shape: Shape, count: int, budget: int | None) -> list[Place] | None:
        """Take the cards on which the request counts for least: it must stay within ``budget``."""
        return self._take_by(
            shape, count, budget, lambda node, devices: node.cost_at(shape, devices)
        )

    def _take_roomiest(self, shape: Shape, count: int, budget: int | None) -> list[Place] | None:
        """Take the devices that could host the most: replicas that span devices then block least."""
        return self._take_by(
            shape,
            count,
            budget,
            lambda node, devices: -sum(node.device_slots(shape, at) for at in devices),
        )

    def _take_by(
        self, shape: Shape, count: int, budget: int | None, first: _Preference
    ) -> list[Place] | None:
        places: list[Place] = []
        left = budget
        for _ in range(count):
            options = [
                (first(node, devices), rating, Place(node.position, devices, cost))
                for node in (self.books.nodes[position] for position in shape.nodes)
                for rating, devices in rated_choices(self, node, shape, roomiest=True)
                for cost in (node.cost_at(shape, devices),)
                if left is None or cost <= left
            ]
            if not options:
                self.give_back(shape, places)
                return None
            place = min(options, key=lambda option: option[:2])[2]
            self.books.move(place.node, shape, place.devices, -1)
            places.append(place)
            left = None if left is None else left - place.mgpu
        return places


class SlotCount:
    """How many replicas of one shape fit on each node, and in all."""

    __slots__ = ("_at", "_books", "_matching", "by_node", "shape", "total")

    def __init__(self, books: Books, shape: Shape) -> None:
        self._books = books
        self.shape = shape
        self._matching = frozenset(shape.nodes)
        self._at = len(books.log)
        self.by_node = {position: books.nodes[position].slots(shape) for position in shape.nodes}
        self.total = sum(self.by_node.values())

    def follow(self) -> None:
        """Bring the counts up to date with what changed since the last call."""
        log = self._books.log
        if self._at == len(log):
            return
        for position in set(log[self._at :]) & self._matching:
            slots = self._books.nodes[position].slots(self.shape)
            self.total += slots - self.by_node[position]
            self.by_node[position] = slots
        self._at = len(log)


class _Index:
    """The rated places of one shape in a heap; entries of nodes that changed since are passed over."""

    __slots__ = ("_at", "_heap", "_matching", "_placer", "_shape")

    def __init__(self, placer: Placer, shape: Shape) -> None:
        self._placer = placer
        self._shape = shape
        self._matching = frozenset(shape.nodes)
        self._heap: list[tuple[Rating, int, int, tuple[int, ...]]] = []
        self._at = len(placer.books.log)
        for position in shape.nodes:
            self._push(position)

    def best(self) -> Place | None:
        nodes = self._placer.books.nodes
        log = self._placer.books.log
        if self._at != len(log):
            for position in sorted(set(log[self._at :]) & self._matching):
                self._push(position)
            self._at = len(log)
        heap = self._heap
        while heap:
            _, position, version, devices = heap[0]
            node = nodes[position]
            if node.version == version:
                return Place(position, devices, node.cost_at(self._shape, devices))
            heapq.heappop(heap)
        return None

    def _push(self, position: int) -> None:
        node = self._placer.books.nodes[position]
        best = min(rated_choices(self._placer, node, self._shape), default=None)
        if best is not None:
            heapq.heappush(self._heap, (best[0], position, node.version, best[1]))


def rated_choices(
    placer: Placer, node: NodeBook, shape: Shape, *, roomiest: bool = False
) -> Iterator[tuple[Rating, tuple[int, ...]]]:
    """Yield the ways to put one replica of ``shape`` on ``node``, each with its rating."""
    if node.free_cpu_milli < shape.cpu_milli or node.free_memory_mib < shape.memory_mib:
        return
    for devices in _device_choices(node, shape, spread=placer.spread, roomiest=roomiest):
        yield _rate(placer, node, shape, devices), devices


def _device_choices(
    node: NodeBook, shape: Shape, *, spread: bool, roomiest: bool
) -> Iterator[tuple[int, ...]]:
    if not shape.devices:
        yield ()
        return
    if shape.is_whole and not shape.models:
        whole = [at for at, free in enumerate(node.free_mgpu) if free == WHOLE_GPU_MGPU]
        if shape.devices == 1 and not node.is_uniform:
            yield from _unlike(node, whole)
        elif len(whole) >= shape.devices:
            yield tuple(whole[: shape.devices])
        return
    able = [at for at in range(len(node.free_mgpu)) if node.device_slots(shape, at)]
    if len(able) < shape.devices:
        return
    if shape.devices == 1:
        yield from _unlike(node, able)
        return
    free = node.free_mgpu
    if roomiest:
        able.sort(key=lambda at: (-node.device_slots(shape, at), at))
    elif spread:
        able.sort(key=lambda at: (-free[at], at))
    else:
        able.sort(key=lambda at: (free[at] == WHOLE_GPU_MGPU, free[at], at))
    yield tuple(sorted(able[: shape.devices]))


def _unlike(node: NodeBook, able: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield single devices, of those that are alike only the first."""
    seen = set()
    for at in able:
        kind = (node.free_mgpu[at], node.free_mib[at], node.cards_mib[at], node.models[at])
        if kind not in seen:
            seen.add(kind)
            yield (at,)


def _rate(placer: Placer, node: NodeBook, shape: Shape, devices: tuple[int, ...]) -> Rating:
    """Rate one place, smallest best: shared devices, what the mix loses, least free, index, name."""
    free = node.free_mgpu
    free_here = sum(free[at] for at in devices)
    free_node = sum(mgpu for mgpu in free if mgpu > 0)
    first = node.indices[devices[0]] if devices else 0
    if placer.spread:
        return (-free_here, -free_node, -node.free_cpu_milli, first, node.position)
    opened = 0
    if not shape.is_whole:
        opened = sum(1 for at in devices if free[at] == WHOLE_GPU_MGPU)
    loss = -placer.mix.waste(node)
    node.move(shape, devices, -1)
    loss += placer.mix.waste(node)
    node.move(shape, devices, 1)
    return (opened, loss, free_here, free_node, node.free_cpu_milli, first, node.position)
