"""Lesser work: how many more replicas would fit without what a project runs at lower priority.

Counted node by node, kept from search to search, and brought up to date where something changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.books import Books, NodeBook, changed_since
from scheduler.core.jobs import Held, Job
from scheduler.core.placement import Extra
from scheduler.core.queues import Queue
from scheduler.core.roster import Roster, nodes_of
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU

#: Changes after which counting anew is less work than looking through them.
_FAR_BEHIND = 10_000
_Out = list[tuple[Job, Held]]


class Lesser:
    """By project, priority and shape: how many more replicas its lesser work would leave room for."""

    __slots__ = ("_found", "_roster")

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._found: dict[tuple[int, int, Shape], Extra] = {}

    def clear(self) -> None:
        """Forget everything: others may be interrupted than before."""
        self._found.clear()

    def more(
        self, project: Queue, priority: int, shape: Shape, later: Books, by_node: Mapping[int, int]
    ) -> int:
        """Return how many more would fit. ``by_node``: how many do in ``later`` as it is."""
        key = (project.id, priority, shape)
        found, log = self._found.get(key), later.log
        if found is None:
            found = self._found[key] = Extra(log)
            stale = nodes_of(self._roster, project)
        elif found.log is log and found.at == len(log):
            return found.total
        elif len(log) - found.at > _FAR_BEHIND:
            stale = nodes_of(self._roster, project) | found.by_node.keys()
        else:
            stale = changed_since(found.log, found.at, log)
        running = self._roster.by_project_on
        for position in stale:
            before = by_node.get(position)
            if before is None:
                continue
            more = 0
            jobs = running(position).get(project.id)
            if jobs is not None:
                out = self._out(jobs, priority, position)
                node = later.nodes[position]
                if out and _may_gain(node, out, shape):
                    more = _slots_without(node, out, shape) - before
            found.set(position, more)
        found.log, found.at = log, len(log)
        return found.total

    def _out(self, jobs: Mapping[Job, None], priority: int, position: int) -> _Out:
        """Return what of ``jobs`` may be interrupted for ``priority`` on one node."""
        return [
            (job, held)
            for job in jobs
            if job.workload.priority < priority and self._roster.is_interruptible(job)
            for held in job.held
            if held.place.node == position
        ]


def _may_gain(node: NodeBook, out: _Out, shape: Shape) -> bool:
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


def _slots_without(node: NodeBook, out: _Out, shape: Shape) -> int:
    """Return how many replicas would fit on ``node`` without ``out``."""
    for job, held in out:
        node.move(job.shape, held.place.devices, 1)
    slots = node.slots(shape)
    for job, held in out:
        node.move(job.shape, held.place.devices, -1)
    return slots
