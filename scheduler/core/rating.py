"""Ratings: how good a place is, on any node. Bin-pack (fragmentation-aware) or spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.core.books import NodeBook
from scheduler.core.mix import Mix, WasteTable
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: What a place is rated by, smallest first. Where two nodes rate equally the first by name wins.
Rating = tuple[int, ...]


class Rater:
    """Rates places by what is free on their node, and by nothing else: equal nodes rate equally.

    All nodes that it is asked about are of one set of books, or copies of them.
    """

    __slots__ = ("_mix", "_spread", "_tables")

    def __init__(self, mix: Mix, *, spread: bool) -> None:
        self._mix = mix
        self._spread = spread
        #: By position of the node.
        self._tables: dict[int, WasteTable] = {}

    def choices(
        self,
        node: NodeBook,
        shape: Shape,
        *,
        roomiest: bool = False,
        waste: int | None = None,
    ) -> Iterator[tuple[Rating, tuple[int, ...]]]:
        """Yield the ways to put one replica of ``shape`` on ``node``, each with its rating.

        ``waste``: what ``waste_of`` says of the node, if that is known.
        """
        if node.free_cpu_milli < shape.cpu_milli or node.free_memory_mib < shape.memory_mib:
            return
        spread = self._spread
        for devices in _device_choices(node, shape, spread=spread, roomiest=roomiest):
            if spread:
                yield _rate_spread(node, devices), devices
                continue
            if waste is None:
                waste = self.waste_of(node)
            yield self._rate(node, shape, devices, waste), devices

    def waste_of(self, node: NodeBook) -> int:
        """Return the free milli-GPU of ``node`` that the mix can't use, weighted by requests."""
        free = node.free_mgpu
        return self._table_of(node).waste(free, node.free_cpu_milli, node.free_memory_mib)

    def bound(self, node: NodeBook, shape: Shape, *, waste: int) -> Rating | None:
        """Return what no place for ``shape`` on ``node`` is rated below; None: it doesn't fit there.

        Much cheaper than a rating. A replica without GPU can only take from what the mix can use, and
        one with GPU can at best end all ``waste``.
        """
        if not node.takes(shape):
            return None
        free = node.free_mgpu
        cpu_milli = node.free_cpu_milli
        if self._spread:
            return (-sum(sorted(free)[-shape.devices :]) if shape.devices else 0,)
        if not shape.devices:
            return (0, 0, 0, sum([mgpu for mgpu in free if mgpu > 0]), cpu_milli, 0)
        return (int(_must_open(node, shape)), -waste)

    def _rate(self, node: NodeBook, shape: Shape, devices: tuple[int, ...], waste: int) -> Rating:
        """Rate one place, smallest best: shared devices, what the mix loses, least free, index."""
        free = node.free_mgpu
        cpu_milli = node.free_cpu_milli
        opened = 0
        if not shape.is_whole:
            opened = sum([free[at] == WHOLE_GPU_MGPU for at in devices])
        left = self._table_of(node).waste(
            node.free_after(shape, devices),
            cpu_milli - shape.cpu_milli,
            node.free_memory_mib - shape.memory_mib,
        )
        free_here = sum([free[at] for at in devices])
        free_node = sum([mgpu for mgpu in free if mgpu > 0])
        return (opened, left - waste, free_here, free_node, cpu_milli, _first(node, devices))

    def _table_of(self, node: NodeBook) -> WasteTable:
        table = self._tables.get(node.position)
        if table is None:
            table = self._tables[node.position] = self._mix.table_of(node)
        return table


def _rate_spread(node: NodeBook, devices: tuple[int, ...]) -> Rating:
    """Rate one place, smallest best: most free on the devices, on the node, most CPU, index."""
    free = node.free_mgpu
    free_here = sum([free[at] for at in devices])
    free_node = sum([mgpu for mgpu in free if mgpu > 0])
    return (-free_here, -free_node, -node.free_cpu_milli, _first(node, devices))


def _first(node: NodeBook, devices: tuple[int, ...]) -> int:
    return node.indices[devices[0]] if devices else 0


def _device_choices(
    node: NodeBook, shape: Shape, *, spread: bool, roomiest: bool
) -> Iterator[tuple[int, ...]]:
    if not shape.devices:
        yield ()
        return
    if shape.is_whole and not shape.models:
        whole = [at for at, free in enumerate(node.free_mgpu) if free == WHOLE_GPU_MGPU]
        if shape.devices == 1 and not node.is_uniform:
            yield from ((at,) for at in _unlike(node, whole))
        elif len(whole) >= shape.devices:
            yield tuple(whole[: shape.devices])
        return
    if shape.devices == 1:
        for at in _unlike(node, range(len(node.free_mgpu))):
            if node.device_slots(shape, at):
                yield (at,)
        return
    yield from _spanning(node, shape, spread=spread, roomiest=roomiest)


def _spanning(
    node: NodeBook, shape: Shape, *, spread: bool, roomiest: bool
) -> Iterator[tuple[int, ...]]:
    """Yield the way to take several devices of which each gives a share."""
    able = [at for at in range(len(node.free_mgpu)) if node.device_slots(shape, at)]
    if len(able) < shape.devices:
        return
    free = node.free_mgpu
    if roomiest:
        able.sort(key=lambda at: (-node.device_slots(shape, at), at))
    elif spread:
        able.sort(key=lambda at: (-free[at], at))
    else:
        able.sort(key=lambda at: (free[at] == WHOLE_GPU_MGPU, free[at], at))
    yield tuple(sorted(able[: shape.devices]))


def _unlike(node: NodeBook, positions: Iterable[int]) -> Iterator[int]:
    """Yield devices, of those that are alike only the first."""
    seen = set()
    for at in positions:
        kind = (node.free_mgpu[at], node.free_mib[at], node.cards_mib[at], node.models[at])
        if kind not in seen:
            seen.add(kind)
            yield at


def _must_open(node: NodeBook, shape: Shape) -> bool:
    """Test whether a fraction of one device finds none here that is already shared."""
    if shape.devices != 1 or shape.request_mgpu in (0, WHOLE_GPU_MGPU):
        return False
    least = shape.request_mgpu
    return not any(least <= mgpu < WHOLE_GPU_MGPU for mgpu in node.free_mgpu)
