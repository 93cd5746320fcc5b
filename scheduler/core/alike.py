"""Nodes alike: nodes on which the same is free are rated once, and told apart by name alone."""

from __future__ import annotations

import heapq

from scheduler.core.books import Books, NodeBook
from scheduler.core.rating import Rater, Rating
from scheduler.core.shape import Shape


class Alike:
    """The nodes of one set of books by state: a number that two nodes share if the same is free."""

    __slots__ = (
        "_at",
        "_groups",
        "_kinds",
        "_numbers",
        "_waste",
        "books",
        "cpu_milli",
        "most_mgpu",
        "rater",
        "state_of",
    )

    def __init__(self, books: Books, rater: Rater) -> None:
        self.books = books
        self.rater = rater
        self._at = len(books.log)
        self._groups: dict[tuple[int, ...], Group] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        #: By state, what a node in it wastes.
        self._waste: dict[int, int] = {}
        known: dict[tuple[object, ...], int] = {}
        #: What never changes of each node, as a number.
        self._kinds = [
            known.setdefault((node.indices, node.models, node.cards_mib), len(known))
            for node in books.nodes
        ]
        #: By position, the number of the node's state; the largest free amount of a device; free CPU.
        self.state_of = [self._number(node) for node in books.nodes]
        self.most_mgpu = [max(node.free_mgpu, default=0) for node in books.nodes]
        self.cpu_milli = [node.free_cpu_milli for node in books.nodes]

    def group(self, positions: tuple[int, ...]) -> Group:
        """Return the nodes at ``positions`` by state; those who ask for the same share one."""
        group = self._groups.get(positions)
        if group is None:
            self.follow()
            group = self._groups[positions] = Group(self, positions)
        return group

    def follow(self) -> None:
        """Number anew the nodes that changed since the last call."""
        log = self.books.log
        if self._at == len(log):
            return
        for position in set(log[self._at :]):
            node = self.books.nodes[position]
            self.state_of[position] = self._number(node)
            self.most_mgpu[position] = max(node.free_mgpu, default=0)
            self.cpu_milli[position] = node.free_cpu_milli
        self._at = len(log)

    def waste(self, position: int) -> int:
        """Return what the node at ``position`` wastes."""
        state = self.state_of[position]
        waste = self._waste.get(state)
        if waste is None:
            waste = self._waste[state] = self.rater.waste_of(self.books.nodes[position])
        return waste

    def _number(self, node: NodeBook) -> int:
        key = (
            self._kinds[node.position],
            tuple(node.free_mgpu),
            tuple(node.free_mib),
            node.free_cpu_milli,
            node.free_memory_mib,
        )
        return self._numbers.setdefault(key, len(self._numbers))


class Group:
    """Some of the nodes, by state. Each state has a heap of positions, some of which have left it."""

    __slots__ = ("_alike", "_at", "_heaps", "positions")

    def __init__(self, alike: Alike, positions: tuple[int, ...]) -> None:
        self._alike = alike
        self._at = len(alike.books.log)
        self._heaps: dict[int, list[int]] = {}
        self.positions = frozenset(positions)
        for position in positions:
            self._heaps.setdefault(alike.state_of[position], []).append(position)

    def follow(self) -> None:
        """Put the nodes that changed since the last call where they belong now."""
        alike = self._alike
        alike.follow()
        log = alike.books.log
        if self._at == len(log):
            return
        for position in set(log[self._at :]) & self.positions:
            heapq.heappush(self._heaps.setdefault(alike.state_of[position], []), position)
        self._at = len(log)

    def first(self, state: int) -> int | None:
        """Return the first node in ``state``; None: there is none left."""
        heap = self._heaps.get(state)
        if heap is None:
            return None
        state_of = self._alike.state_of
        while heap:
            if state_of[heap[0]] == state:
                return heap[0]
            heapq.heappop(heap)
        del self._heaps[state]
        return None

    def firsts(self) -> list[tuple[int, int]]:
        """Return the states that some node is in, each with the first, in no order."""
        found = ((state, self.first(state)) for state in list(self._heaps))
        return [(state, first) for state, first in found if first is not None]


class Best:
    """The best place of one shape: states in a heap by rating, then by the first node in each.

    Of every state that a node of the group is in and that takes the shape, the heap holds an entry
    with that node or, if nodes have left the state since, with one before it, and with the rating or,
    until it comes to the top, a bound below it. So no better place than the top of the heap is
    missed, and an entry is put right when it comes there.
    """

    __slots__ = (
        "_alike",
        "_at",
        "_bounds",
        "_first",
        "_group",
        "_heap",
        "_least",
        "_rated",
        "_room",
        "_shape",
    )

    def __init__(self, alike: Alike, shape: Shape) -> None:
        self._alike = alike
        self._shape = shape
        self._group = alike.group(shape.nodes)
        self._group.follow()
        self._at = len(alike.books.log)
        #: By position, and how much of it is needed: nodes with less are passed over at once.
        self._room, self._least = alike.most_mgpu, max(1, shape.cheapest_mgpu)
        if not shape.devices:
            self._room, self._least = alike.cpu_milli, shape.cpu_milli
        self._heap: list[tuple[Rating, int, int]] = []
        #: By state, the first position for which the heap has an entry.
        self._first: dict[int, int] = {}
        #: By state, a bound of the rating; None: the shape doesn't fit.
        self._bounds: dict[int, Rating | None] = {}
        #: By state, the rating and the devices, where they were needed.
        self._rated: dict[int, tuple[Rating, tuple[int, ...]]] = {}
        for state, first in self._group.firsts():
            if self._room[first] >= self._least:
                self._enter(state, first)

    def find(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the position of the best node and its devices; None: the shape fits nowhere."""
        self._follow()
        heap, state_of = self._heap, self._alike.state_of
        while heap:
            rating, position, state = heap[0]
            if state_of[position] == state:
                best = self._rated.get(state) or self._rate(state, position)
                if best[0] == rating:
                    return position, best[1]
                heapq.heapreplace(heap, (best[0], position, state))
                continue
            heapq.heappop(heap)
            if self._first.get(state) == position:
                del self._first[state]
                first = self._group.first(state)
                if first is not None:
                    self._enter(state, first)
        return None

    def _rate(self, state: int, position: int) -> tuple[Rating, tuple[int, ...]]:
        alike = self._alike
        node, waste = alike.books.nodes[position], alike.waste(position)
        best = self._rated[state] = min(alike.rater.choices(node, self._shape, waste=waste))
        return best

    def _follow(self) -> None:
        self._group.follow()
        log = self._alike.books.log
        if self._at == len(log):
            return
        state_of = self._alike.state_of
        for position in set(log[self._at :]) & self._group.positions:
            if self._room[position] >= self._least:
                self._enter(state_of[position], position)
        self._at = len(log)

    def _enter(self, state: int, position: int) -> None:
        """Put an entry into the heap unless one for this node or an earlier one is there."""
        if self._first.get(state, position + 1) <= position:
            return
        if state in self._rated:
            bound: Rating | None = self._rated[state][0]
        elif state in self._bounds:
            bound = self._bounds[state]
        else:
            alike = self._alike
            node, waste = alike.books.nodes[position], alike.waste(position)
            bound = self._bounds[state] = alike.rater.bound(node, self._shape, waste=waste)
        if bound is not None:
            self._first[state] = position
            heapq.heappush(self._heap, (bound, position, state))
