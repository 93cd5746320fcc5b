"""Placement: which node and devices a replica gets, one or several of a shape at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scheduler.core.alike import Alike, Best
from scheduler.core.books import Books, NodeBook
from scheduler.core.mix import Mix
from scheduler.core.rating import Rater, Rating
from scheduler.core.shape import Shape

#: A number by which a place is preferred before its rating, smallest first.
_Preference = Callable[[NodeBook, tuple[int, ...]], int]


class Place(NamedTuple):
    """Where one replica goes: the node's position, its devices' positions, what it counts as."""

    node: int
    devices: tuple[int, ...]
    mgpu: int


class Placer:
    """Finds places in one set of books. Ratings are kept for each shape and follow the log."""

    __slots__ = ("_alike", "_best", "_slots", "books", "rater")

    def __init__(self, books: Books, *, mix: Mix, spread: bool) -> None:
        self.books = books
        self.rater = Rater(mix, spread=spread)
        self._alike = Alike(books, self.rater)
        self._best: dict[Shape, Best] = {}
        self._slots: dict[Shape, SlotCount] = {}

    def set_mix(self, mix: Mix, *, spread: bool) -> None:
        """Rate by another mix from now on."""
        self.rater = Rater(mix, spread=spread)
        self._alike = Alike(self.books, self.rater)
        self._best.clear()

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
        best = self._best.get(shape)
        if best is None:
            best = self._best[shape] = Best(self._alike, shape)
        found = best.find()
        if found is None:
            return None
        position, devices = found
        return Place(position, devices, self.books.nodes[position].cost_at(shape, devices))

    def _find_within(self, shape: Shape, budget_mgpu: int) -> Place | None:
        best: tuple[Rating, Place] | None = None
        for position in shape.nodes:
            node = self.books.nodes[position]
            for rating, devices in self.rater.choices(node, shape):
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
                for rating, devices in self.rater.choices(node, shape, roomiest=True)
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


class Extra:
    """How many more replicas of one shape would fit if something were gone, by node and in all."""

    __slots__ = ("at", "by_node", "log", "total")

    def __init__(self, log: list[int]) -> None:
        #: The log that it follows, and how far it came in it.
        self.log = log
        self.at = len(log)
        self.by_node: dict[int, int] = {}
        self.total = 0

    def set(self, position: int, more: int) -> None:
        """Set how many more fit on one node."""
        self.total += more - self.by_node.get(position, 0)
        if more:
            self.by_node[position] = more
        else:
            self.by_node.pop(position, None)


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
