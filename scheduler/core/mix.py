"""The mix: what the pool is asked for, by shape, and how much free GPU of a node that mix can't use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import floordiv, mul

from scheduler.core.books import NodeBook
from scheduler.core.shape import Shape
from scheduler.core.snapshot import UNLIMITED
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
class _DeviceFit:
    """What one device with a free amount is worth to each class of the mix, in the mix's order."""

    #: The free milli-GPU where the class may use it, else 0.
    able_mgpu: tuple[int, ...]
    #: How many devices' worth of it fits, and what that takes.
    slots: tuple[int, ...]
    hosted_mgpu: tuple[int, ...]
    #: What classes of one device gain by it, weighted.
    gain: int
    #: What is left of it in the end.
    left_mgpu: int


@dataclass(slots=True, eq=False)
class _Devices:
    """What the free devices of a node are worth to the mix."""

    free_mgpu: int
    fits: list[_DeviceFit]
    #: What is lost if CPU and memory are plenty.
    loss: int = 0
    #: By class: how many devices' worth fits, how many replicas, what these take of CPU and memory.
    slots: list[int] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    cpu_milli: list[int] = field(default_factory=list)
    memory_mib: list[int] = field(default_factory=list)
    #: The largest of each.
    most_cpu_milli: int = 0
    most_memory_mib: int = 0
    #: By class, the sums over the devices; made on first use.
    _able_mgpu: list[int] | None = None
    _hosted_mgpu: list[int] | None = None

    @property
    def able_mgpu(self) -> list[int]:
        """The free milli-GPU that each class may use."""
        if self._able_mgpu is None:
            self._able_mgpu = _add_up(fit.able_mgpu for fit in self.fits)
        return self._able_mgpu

    @property
    def hosted_mgpu(self) -> list[int]:
        """What as many devices' worth of each class as fit take."""
        if self._hosted_mgpu is None:
            self._hosted_mgpu = _add_up(fit.hosted_mgpu for fit in self.fits)
        return self._hosted_mgpu


class Mix:
    """Requests by shape. Fragmentation-aware placement keeps small what it says is wasted.

    Four things are added up, each weighted by how often it is asked for: free GPU that a class can't
    use at all; free GPU that is left over when a class takes all that it can; what is left of each
    device when the mix fills it in random order; free GPU beyond what the node's CPU feeds.
    """

    __slots__ = (
        "_left",
        "_tables",
        "classes",
        "cpu_milli",
        "cpu_of",
        "devices_of",
        "memory_of",
        "mgpu",
        "replicas",
        "spanning",
    )

    def __init__(self, counts: Iterable[tuple[Shape, int]]) -> None:
        known = list(counts)
        self.classes = typical_classes(known)
        self.replicas = sum(each.count for each in self.classes)
        #: By class.
        self.devices_of = [each.devices for each in self.classes]
        self.cpu_of = [each.cpu_milli for each in self.classes]
        self.memory_of = [each.memory_mib for each in self.classes]
        #: Those of several devices, with their position.
        self.spanning = [(at, each) for at, each in enumerate(self.classes) if each.devices > 1]
        #: CPU and GPU asked for in all: the ratio at which a node is used up evenly.
        self.cpu_milli = sum(count * shape.cpu_milli for shape, count in known)
        self.mgpu = sum(count * shape.replica_mgpu for shape, count in known)
        self._left: dict[int, dict[int, int]] = {}
        self._tables: dict[tuple[object, ...], WasteTable] = {}

    def table_of(self, node: NodeBook) -> WasteTable:
        """Return what there is to know of nodes with the devices of ``node``."""
        key = (node.cards_mib, node.models, node.is_bounded)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = WasteTable(self, node)
        return table

    def unfed_mgpu(self, free_mgpu: int, cpu_milli: int) -> int:
        """Return how much free GPU there is beyond what ``cpu_milli`` feeds, with some margin."""
        if not self.cpu_milli:
            return 0
        fed = max(0, cpu_milli) * self.mgpu * FED_PERCENT // (100 * self.cpu_milli)
        return max(0, free_mgpu - fed)

    def left_of(self, card_mib: int, free_mgpu: int) -> int:
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


class WasteTable:
    """What nodes with the same devices waste, by their free amounts, each worked out once."""

    __slots__ = (
        "_by_device",
        "_by_devices",
        "_cards_mib",
        "_is_bounded",
        "_is_uniform",
        "_memo",
        "_mix",
        "_models",
    )

    def __init__(self, mix: Mix, node: NodeBook) -> None:
        self._mix = mix
        self._cards_mib = node.cards_mib
        self._models = node.models
        self._is_uniform = node.is_uniform
        self._is_bounded = node.is_bounded
        self._memo: dict[tuple[tuple[int, ...], int, int], int] = {}
        self._by_devices: dict[tuple[int, ...], _Devices] = {}
        self._by_device: dict[tuple[int, str, int], _DeviceFit] = {}

    def waste(self, free_mgpu: Iterable[int], cpu_milli: int, memory_mib: int) -> int:
        """Return the free milli-GPU that the mix can't use, weighted by requests.

        ``free_mgpu`` is by device, in the order of the node; CPU and memory are what is free.
        """
        free = tuple(sorted(free_mgpu) if self._is_uniform else free_mgpu)
        if not self._is_bounded:
            cpu_milli = memory_mib = UNLIMITED
        key = (free, cpu_milli, memory_mib)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._waste(free, cpu_milli, memory_mib)
        return known

    def _waste(self, free_mgpu: tuple[int, ...], cpu_milli: int, memory_mib: int) -> int:
        devices = self._by_devices.get(free_mgpu)
        if devices is None:
            devices = self._by_devices[free_mgpu] = self._worth_of(free_mgpu)
        loss, free = devices.loss, devices.free_mgpu
        if not free:
            return 0
        if cpu_milli < devices.most_cpu_milli or memory_mib < devices.most_memory_mib:
            loss += self._short(devices, cpu_milli, memory_mib)
        return loss + self._mix.replicas * self._mix.unfed_mgpu(free, cpu_milli)

    def _short(self, devices: _Devices, cpu_milli: int, memory_mib: int) -> int:
        """Return what is lost besides because CPU or memory is short for some classes."""
        loss = 0
        able_mgpu, hosted_mgpu, most_of = devices.able_mgpu, devices.hosted_mgpu, devices.most
        needs = enumerate(zip(devices.cpu_milli, devices.memory_mib, strict=True))
        for at in [at for at, (cpu, mib) in needs if cpu > cpu_milli or mib > memory_mib]:
            each = self._mix.classes[at]
            most = most_of[at]
            if each.cpu_milli * most > cpu_milli:
                most = cpu_milli // each.cpu_milli
            if each.memory_mib * most > memory_mib:
                most = memory_mib // each.memory_mib
            hosted, slots = hosted_mgpu[at] * each.devices, devices.slots[at]
            lost = hosted * most_of[at] // slots
            lost += able_mgpu[at] if most <= 0 else -(hosted * most // slots)
            loss += 2 * each.count * lost
        return loss

    def _worth_of(self, free_mgpu: tuple[int, ...]) -> _Devices:
        mix = self._mix
        fits = [
            self._device_fit(card, model, mgpu)
            for card, model, mgpu in zip(self._cards_mib, self._models, free_mgpu, strict=True)
            if mgpu > 0
        ]
        free = sum([mgpu for mgpu in free_mgpu if mgpu > 0])
        found = _Devices(free, fits)
        if not fits:
            return found
        slots = found.slots = _add_up(fit.slots for fit in fits)
        found.most = list(map(floordiv, slots, mix.devices_of))
        found.cpu_milli = list(map(mul, found.most, mix.cpu_of))
        found.memory_mib = list(map(mul, found.most, mix.memory_of))
        found.most_cpu_milli = max(found.cpu_milli, default=0)
        found.most_memory_mib = max(found.memory_mib, default=0)
        loss = 2 * mix.replicas * (2 * free + sum([fit.left_mgpu for fit in fits]))
        loss -= sum([fit.gain for fit in fits])
        for at, each in mix.spanning:
            if found.most[at]:
                able = sum([fit.able_mgpu[at] for fit in fits])
                hosted = sum([fit.hosted_mgpu[at] for fit in fits])
                hosted = hosted * found.most[at] * each.devices // slots[at]
                loss -= 2 * each.count * (able + hosted)
        found.loss = loss
        return found

    def _device_fit(self, card_mib: int, model: str, free_mgpu: int) -> _DeviceFit:
        key = (card_mib, model, free_mgpu)
        known = self._by_device.get(key)
        if known is not None:
            return known
        able, slots, hosted = [], [], []
        gain = 0
        for each in self._mix.classes:
            need = each.need_mgpu(card_mib)
            fits = free_mgpu >= need and (not each.models or model in each.models)
            able.append(free_mgpu if fits else 0)
            slots.append(free_mgpu // need if fits else 0)
            hosted.append(free_mgpu - free_mgpu % need if fits else 0)
            if each.devices == 1:
                gain += 2 * each.count * (able[-1] + hosted[-1])
        left_mgpu = self._mix.left_of(card_mib, free_mgpu)
        known = _DeviceFit(tuple(able), tuple(slots), tuple(hosted), gain, left_mgpu)
        self._by_device[key] = known
        return known


def _add_up(columns: Iterable[tuple[int, ...]]) -> list[int]:
    """Return the sums by class."""
    return list(map(sum, zip(*columns, strict=True)))


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
