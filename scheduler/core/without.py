"""Without: how many more replicas a node would take if some of the work on it were gone."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.books import NodeBook
from scheduler.core.jobs import Held, Job
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: Replicas that are thought away, each with its job.
Out = list[tuple[Job, Held]]


def more_without(node: NodeBook, out: Out, shape: Shape, *, before: int) -> int:
    """Return how many more replicas of ``shape`` than the ``before`` that do would fit without ``out``."""
    if not out or not _may_gain(node, out, shape):
        return 0
    return _slots_without(node, out, shape) - before


def on_node(jobs: Iterable[Job], position: int) -> Out:
    """Return what ``jobs`` hold on the node at ``position``."""
    return [(job, held) for job in jobs for held in job.held if held.place.node == position]


def _may_gain(node: NodeBook, out: Out, shape: Shape) -> bool:
    """Test, quickly, whether another replica might fit once ``out`` is gone."""
    need = shape.request_mgpu
    if not shape.devices or shape.gpu_memory_mib:
        return True
    amounts: dict[int, int] = {}
    for _, held in out:
        place = held.place
        for at in place.devices:
            amounts[at] = amounts.get(at, 0) + place.mgpu // len(place.devices)
    free = node.free_mgpu
    lacking = shape.devices - len(amounts)
    if lacking > 0 and shape.is_whole and free.count(WHOLE_GPU_MGPU) < lacking:
        return False
    able = 0
    for at, mgpu in amounts.items():
        able += free[at] + mgpu >= need
    if not able or shape.devices == 1:
        return able > 0
    others = sum([mgpu >= need for at, mgpu in enumerate(free) if at not in amounts])
    return able + others >= shape.devices


def _slots_without(node: NodeBook, out: Out, shape: Shape) -> int:
    """Return how many replicas would fit on ``node`` without ``out``."""
    for job, held in out:
        node.move(job.shape, held.place.devices, 1)
    slots = node.slots(shape)
    for job, held in out:
        node.move(job.shape, held.place.devices, -1)
    return slots
