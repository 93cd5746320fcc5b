"""Consolidation (off by default): moving preemptible replicas so that several holes become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from scheduler.core import quota
from scheduler.core.allocate import budget_of
from scheduler.core.jobs import Held, Job
from scheduler.core.placement import Place
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.waiting import Request

#: Ways of packing that are tried for one set of replicas to move.
_PACKINGS = 400


@dataclass(frozen=True, slots=True)
class Move:
    """One replica that is moved: it stops and runs again at once at ``place``."""

    job: Job
    held: Held
    place: Place


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the request goes, and the moves that make room for it."""

    places: tuple[Place, ...]
    moves: tuple[Move, ...]


@dataclass(slots=True)
class _Item:
    """Something to place: a replica of the request, or one that is moved."""

    shape: Shape
    most_mgpu: int | None
    job: Job | None = None
    held: Held | None = None


class Mover:
    """Looks for the fewest moves that let one request fit, on the later books as they stand."""

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request
        self._tries = session.policy.search_bound
        self._packings = 0

    def find(self, *, without: frozenset[int]) -> Packing | None:
        """Return the packing with the fewest moves; replicas with an id in ``without`` are gone."""
        movable = self._movable(without)
        for size in range(1, len(movable) + 1):
            for group in self._groups(movable, size):
                packing = self._try(group)
                if packing is not None:
                    return packing
            if self._tries <= 0:
                return None
        return None

    def _movable(self, without: frozenset[int]) -> list[tuple[Job, Held]]:
        session = self._session
        found = [
            (job.workload.name, held.place.node, held.place.devices, job, held)
            for jobs in session.roster.running.values()
            for job in jobs.values()
            if session.roster.is_interruptible(job)
            for held in job.held
            if held.id not in without and held.place.node >= 0
            if session.at_once or held.id >= 0
        ]
        found.sort(key=lambda row: (row[0], row[1], row[2], row[4].id))
        return [(job, held) for _, _, _, job, held in found]

    def _groups(
        self, movable: Sequence[tuple[Job, Held]], size: int
    ) -> Iterator[tuple[tuple[Job, Held], ...]]:
        """Yield sets of ``size`` replicas: first those of one node, then, if they are few, any."""
        by_node: dict[int, list[tuple[Job, Held]]] = {}
        for each in movable:
            by_node.setdefault(each[1].place.node, []).append(each)
        for node in sorted(by_node):
            yield from combinations(by_node[node], size)
        if comb(len(movable), size) <= self._tries:
            for group in combinations(movable, size):
                if len({held.place.node for _, held in group}) > 1:
                    yield group

    def _try(self, group: Sequence[tuple[Job, Held]]) -> Packing | None:
        self._tries -= 1
        if self._tries < 0:
            return None
        nodes = self._session.later.nodes
        for job, held in group:
            nodes[held.place.node].move(job.shape, held.place.devices, 1)
        items = [_Item(self._request.shape, None) for _ in range(self._request.count)]
        items += [_Item(job.shape, held.place.mgpu, job, held) for job, held in group]
        items.sort(key=lambda item: -item.shape.replica_mgpu)
        self._packings = _PACKINGS
        places = self._pack(items, budget_of(self._request))
        for job, held in group:
            nodes[held.place.node].move(job.shape, held.place.devices, -1)
        return None if places is None else _packing(items, places)

    def _pack(self, items: Sequence[_Item], budget: int | None) -> list[Place] | None:
        """Return a place for each item, or None. The books are left as they were."""
        if not items:
            return []
        item, nodes = items[0], self._session.later.nodes
        is_own = item.held is None
        most = budget if is_own else item.most_mgpu
        for place in self._choices(item.shape):
            if most is not None and place.mgpu > most:
                continue
            self._packings -= 1
            if self._packings < 0:
                return None
            nodes[place.node].move(item.shape, place.devices, -1)
            left = budget - place.mgpu if is_own and budget is not None else budget
            rest = self._pack(items[1:], left)
            nodes[place.node].move(item.shape, place.devices, 1)
            if rest is not None:
                return [place, *rest]
        return None

    def _choices(self, shape: Shape) -> list[Place]:
        placer = self._session.placer(self._session.later)
        nodes = self._session.later.nodes
        rated = [
            (rating, Place(at, devices, nodes[at].cost_at(shape, devices)))
            for at in shape.nodes
            for rating, devices in placer.rater.choices(nodes[at], shape)
        ]
        rated.sort(key=lambda pair: pair[0])
        return [place for _, place in rated]


def _packing(items: Sequence[_Item], places: Sequence[Place]) -> Packing:
    pairs = list(zip(items, places, strict=True))
    return Packing(
        places=tuple(place for item, place in pairs if item.held is None),
        moves=tuple(
            Move(item.job, item.held, place)
            for item, place in pairs
            if item.held is not None and item.job is not None
        ),
    )


def find_moves(session: Session, request: Request) -> Packing | None:
    """Return the fewest moves that let ``request``, which lacks only devices, start; None if none do."""
    preemptible = request.workload.preemptible
    if not quota.passes(project=request.project, amount=request.amount, preemptible=preemptible):
        return None
    return Mover(session, request).find(without=frozenset())
