"""The mix: what the pool is asked for, by shape, and how much free GPU of a node that mix can't use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.books import NodeBook
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: The mix holds the most frequent shapes that make up this share of all requests, in percent.
COVERED_PERCENT = 95
#: A node may keep this much more free GPU than its CPU feeds at the mix's ratio, in percent of that.
FED_PERCENT = 125


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


@dataclass(frozen=True, slots=True)
class _Fit:
    """How one class fits the free devices of a node, whatever CPU and memory say."""

    each: MixClass
    #: Free milli-GPU of the devices that take it.
    able_mgpu: int
    #: How many devices' worth of it fits, and what that takes.
    slots: int
    hosted_mgpu: int


@dataclass(frozen=True, slots=True)
class _Devices:
    """What the free devices of a node are worth to the mix."""

    free_mgpu: int
    #: Over the classes that don't fit, and for what a device keeps in the end.
    loss: int
    fits: tuple[_Fit, ...]


class Mix:
    """Requests by shape. ``waste`` is what fragmentation-aware placement keeps small.

    Four things are added up, each weighted by how often it is asked for: free GPU that a class can't
    use at all; free GPU that is left over when a class takes all that it can; what is left of each
    device when the mix fills it in random order; free GPU beyond what the node's CPU feeds.
    """

    __slots__ = ("_left", "_memo", "_of_devices", "classes", "cpu_milli", "mgpu", "replicas")

    def __init__(self, counts: Iterable[tuple[Shape, int]]) -> None:
        known = list(counts)
        self.classes = typical_classes(known)
        self.replicas = sum(each.count for each in self.classes)
        #: CPU and GPU asked for in all: the ratio at which a node is used up evenly.
        self.cpu_milli = sum(count * shape.cpu_milli for shape, count in known)
        self.mgpu = sum(count * shape.replica_mgpu for shape, count in known)
        self._left: dict[int, dict[int, int]] = {}
        self._of_devices: dict[tuple[object, ...], _Devices] = {}
        self._memo: dict[tuple[object, ...], int] = {}

    def waste(self, node: NodeBook) -> int:
        """Return the free milli-GPU of ``node`` that the mix can't use, weighted by requests."""
        free = tuple(sorted(node.free_mgpu)) if node.is_uniform else tuple(node.free_mgpu)
        bounded = node.is_bounded
        key = (
            node.cards_mib,
            node.models,
            free,
            node.free_cpu_milli if bounded else 0,
            node.free_memory_mib if bounded else 0,
        )
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._waste(node, key[:3])
        return known

    def _waste(self, node: NodeBook, key: tuple[object, ...]) -> int:
        devices = self._of_devices.get(key)
        if devices is None:
            devices = self._of_devices[key] = self._make_devices(node)
        loss, free = devices.loss, devices.free_mgpu
        cpu_milli, memory_mib = node.free_cpu_milli, node.free_memory_mib
        for fit in devices.fits:
            each = fit.each
            most = fit.slots // each.devices
            if each.cpu_milli:
                most = min(most, cpu_milli // each.cpu_milli)
            if each.memory_mib:
                most = min(most, memory_mib // each.memory_mib)
            if most <= 0:
                loss += 4 * each.count * free
                continue
            hosted = fit.hosted_mgpu * most * each.devices // fit.slots
            loss += 2 * each.count * (2 * free - fit.able_mgpu - hosted)
        return loss + self.replicas * self._unfed_mgpu(free, cpu_milli)

    def _unfed_mgpu(self, free_mgpu: int, cpu_milli: int) -> int:
        """Return how much free GPU there is beyond what ``cpu_milli`` feeds, with some margin."""
        if not self.cpu_milli:
            return 0
        fed = max(0, cpu_milli) * self.mgpu * FED_PERCENT // (100 * self.cpu_milli)
        return max(0, free_mgpu - fed)

    def _make_devices(self, node: NodeBook) -> _Devices:
        free = [
            (card, mgpu, model)
            for card, mgpu, model in zip(node.cards_mib, node.free_mgpu, node.models, strict=True)
            if mgpu > 0
        ]
        total = sum(mgpu for _, mgpu, _ in free)
        loss = 2 * self.replicas * sum(self._left_of(card, mgpu) for card, mgpu, _ in free)
        fits = []
        for each in self.classes:
            able = slots = hosted = 0
            for card, mgpu, model in free:
                need = each.need_mgpu(card)
                if mgpu >= need and (not each.models or model in each.models):
                    able += mgpu
                    slots += mgpu // need
                    hosted += mgpu - mgpu % need
            if slots < each.devices:
                loss += 4 * each.count * total
            else:
                fits.append(_Fit(each, able, slots, hosted))
        return _Devices(total, loss, tuple(fits))

    def _left_of(self, card_mib: int, free_mgpu: int) -> int:
        """Return what is left of a device once the mix, in random order, has filled it."""
        left = self._left.setdefault(card_mib, {})
        if free_mgpu not in left:
            needs = [(each.need_mgpu(card_mib), each.count) for each in self.classes]
            for mgpu in sorted(_reachable(free_mgpu, {need for need, _ in needs}) - left.keys()):
                taking = [(need, count) for need, count in needs if need <= mgpu]
                asked = sum(count for _, count in taking)
                kept = sum(count * left[mgpu - need] for need, count in taking)
                left[mgpu] = kept // asked if asked else mgpu
        return left[free_mgpu]


def _reachable(free_mgpu: int, needs: set[int]) -> set[int]:
    """Return what can be free on a device, from ``free_mgpu`` down, while ``needs`` are taken."""
    found = {free_mgpu}
    ahead = [free_mgpu]
    while ahead:
        mgpu = ahead.pop()
        below = {mgpu - need for need in needs if need <= mgpu} - found
        found |= below
        ahead.extend(below)
    return found


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
