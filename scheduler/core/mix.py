"""The mix: what the pool is asked for, by shape, and how much free GPU of a node that mix can't use."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.books import NodeBook
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: The mix holds the most frequent shapes that make up this share of all requests, in percent.
COVERED_PERCENT = 95


class MixClass:
    """One shape of the mix with how many replicas ask for it."""

    __slots__ = ("count", "cpu_milli", "devices", "memory_mib", "models", "shape")

    def __init__(self, shape: Shape, count: int) -> None:
        self.shape = shape
        self.count = count
        self.devices = shape.devices
        self.cpu_milli = shape.cpu_milli
        self.memory_mib = shape.memory_mib
        self.models = shape.models

    def need_mgpu(self, card_mib: int) -> int:
        """Return what it needs of one device of ``card_mib``; more than there is where it can't fit."""
        cost = self.shape.cost_on(card_mib)
        return WHOLE_GPU_MGPU + 1 if cost is None else cost[0]


class Mix:
    """Requests by shape. ``waste`` is what fragmentation-aware placement keeps small."""

    __slots__ = ("_base", "_memo", "classes", "hard")

    def __init__(self, counts: Iterable[tuple[Shape, int]]) -> None:
        self.classes = typical_classes(counts)
        #: Those that a node as a whole may refuse although single devices would do.
        self.hard = tuple(c for c in self.classes if c.devices > 1 or c.models)
        self._base: dict[tuple[int, int], int] = {}
        self._memo: dict[tuple[object, ...], int] = {}

    def waste(self, node: NodeBook) -> int:
        """Return the free milli-GPU of ``node`` that the mix can't use, weighted by requests."""
        bounded = node.is_bounded
        key = (
            node.cards_mib,
            node.models if self.hard else (),
            tuple(node.free_mgpu),
            node.free_cpu_milli if bounded else 0,
            node.free_memory_mib if bounded else 0,
        )
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._waste(node)
        return known

    def _waste(self, node: NodeBook) -> int:
        free = [(card, mgpu) for card, mgpu in zip(node.cards_mib, node.free_mgpu, strict=True)]
        total = sum(self._unusable(card, mgpu) for card, mgpu in free if mgpu > 0)
        for each in self.classes if node.is_bounded else self.hard:
            able = [
                mgpu
                for (card, mgpu), model in zip(free, node.models, strict=True)
                if mgpu >= each.need_mgpu(card) and (not each.models or model in each.models)
            ]
            if each.models:
                total += each.count * sum(
                    mgpu
                    for (card, mgpu), model in zip(free, node.models, strict=True)
                    if mgpu >= each.need_mgpu(card) and model not in each.models
                )
            if (
                len(able) < each.devices
                or node.free_cpu_milli < each.cpu_milli
                or node.free_memory_mib < each.memory_mib
            ):
                total += each.count * sum(able)
        return total

    def _unusable(self, card_mib: int, free_mgpu: int) -> int:
        """Return the part of one device's free amount that is too small, over all classes."""
        key = (card_mib, free_mgpu)
        known = self._base.get(key)
        if known is None:
            count = sum(c.count for c in self.classes if free_mgpu < c.need_mgpu(card_mib))
            known = self._base[key] = count * free_mgpu
        return known


def typical_classes(counts: Iterable[tuple[Shape, int]]) -> tuple[MixClass, ...]:
    """Return the most frequent GPU shapes that cover the typical share of all requests."""
    wanted = [(count, shape) for shape, count in counts if shape.devices and count]
    wanted.sort(key=lambda pair: (-pair[0], repr(pair[1].key)))
    total = sum(count for count, _ in wanted)
    chosen: list[MixClass] = []
    covered = last = 0
    for count, shape in wanted:
        if covered * 100 >= total * COVERED_PERCENT and count < last:
            break
        chosen.append(MixClass(shape, count))
        covered += count
        last = count
    return tuple(chosen)
