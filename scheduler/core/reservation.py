"""Reservations: a workload that waited too long, lacking only devices, has a node kept for it."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core import quota
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.waiting import Line, Request, Waiting


class Reservations:
    """Nodes kept for starving workloads. Only preemptible work of others may use them meanwhile."""

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        #: Workload id to node position.
        self._kept: dict[int, int] = {}
        if session.policy.starvation_after_s:
            self._reserve()

    @property
    def exist(self) -> bool:
        """Test whether there are any."""
        return bool(self._kept)

    @property
    def barred(self) -> frozenset[int]:
        """Return the positions of all reserved nodes."""
        return frozenset(self._kept.values())

    def bar(self, request: Request) -> Request:
        """Return ``request`` kept away from nodes that are reserved for others."""
        if not self._kept or request.workload.preemptible:
            return request
        own = self._kept.get(request.workload.id)
        barred = frozenset(at for at in self._kept.values() if at != own)
        shape = self._session.shapes.without_nodes(request.shape, barred)
        return request if shape is request.shape else replace(request, shape=shape)

    def owner_of(self, shape: Shape) -> int | None:
        """Return the workload for which a node that would take ``shape`` is kept, if any."""
        for workload_id, at in self._kept.items():
            if at in shape.nodes and self._session.start.nodes[at].slots(shape):
                return workload_id
        return None

    def nodes(self) -> dict[int, str]:
        """Return the reserved node's name by workload id."""
        nodes = self._session.nodes
        return {workload_id: nodes[at].name for workload_id, at in self._kept.items()}

    def starving_ids(self) -> tuple[int, ...]:
        """Return the workloads at the head of their queues that lack only devices."""
        heads = (self._head(lines) for lines in self._waiting.lines_of.values())
        return tuple(sorted(line.entries[line.first][2] for line in heads if line is not None))

    def _head(self, lines: list[Line]) -> Line | None:
        """Return the first line that passes checks 1 and 2: what it lacks is devices."""
        passing = [
            line
            for line in lines
            if len(line)
            and quota.passes(project=line.project, amount=line.amount, preemptible=line.preemptible)
        ]
        return min(passing, key=lambda line: line.head_key, default=None)

    def _reserve(self) -> None:
        session = self._session
        after_us = session.policy.starvation_after_s * 1_000_000
        starving = []
        for workload in session.facts.starving.values():
            since_us, line = workload.starving_since_us, self._waiting.line_of(workload.id)
            if since_us is None or line is None or session.now_us - since_us < after_us:
                continue
            starving.append((since_us, workload.name, workload.id, line))
        for _, _, workload_id, line in sorted(starving, key=lambda row: row[:3]):
            at = self._soonest_node(line.shape)
            if at is not None:
                self._kept[workload_id] = at

    def _soonest_node(self, shape: Shape) -> int | None:
        """Return the matching node that lacks the least for one replica, by what is held on it."""
        empty = self._session.empty_books.nodes
        taken = set(self._kept.values())
        able = [at for at in shape.nodes if at not in taken and empty[at].slots(shape)]
        return min(able, key=lambda at: (self._held_mgpu(at, shape), at), default=None)

    def _held_mgpu(self, at: int, shape: Shape) -> int:
        """Return how much must still come free on a node before one replica fits."""
        free = sorted(
            (max(0, mgpu) for mgpu in self._session.start.nodes[at].free_mgpu), reverse=True
        )
        return sum(max(0, shape.cheapest_mgpu - mgpu) for mgpu in free[: shape.devices])
