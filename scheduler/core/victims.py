"""Victims: who could be interrupted, how willing each is, and what a set of them costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.core.books import Books
from scheduler.core.jobs import Candidate, Held, Row
from scheduler.core.ordering import ratio
from scheduler.core.queues import Queue
from scheduler.core.units import WHOLE_GPU_MGPU


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken of one candidate: some further replicas, or all there is."""

    candidate: Candidate
    helds: tuple[Held, ...]

    @property
    def whole(self) -> bool:
        """Test whether the workload stops altogether."""
        return len(self.helds) == len(self.candidate.job.held)

    @property
    def mgpu(self) -> int:
        """Return the GPU that is interrupted."""
        return sum(held.place.mgpu for held in self.helds)

    def pieces(self) -> list[int]:
        """Return what leaves in turn: further replicas one by one, then the rest at once."""
        amounts = [held.place.mgpu for held in self.helds]
        spare = self.candidate.job.spare
        if not self.whole or spare == len(amounts):
            return amounts
        return [*amounts[:spare], sum(amounts[spare:])]


def row_of(project: Queue) -> Row:
    """Return ``project``'s place among those that give: lower rank, then more over-served, first."""
    department = project.department
    assert department is not None
    return (*_half_row(department), *_half_row(project))


def _half_row(queue: Queue) -> tuple[int, int, int]:
    weight = queue.quota.weight_milli
    if not weight:
        return (int(queue.quota.rank), 0, 0)
    return (int(queue.quota.rank), 1, -ratio(queue.alloc_mgpu - queue.quota.quota_mgpu, weight))


def ways_to_take(candidate: Candidate, books: Books) -> Iterator[Taken]:
    """Yield what can be taken of a candidate: sets of further replicas, unlike ones only, or all.

    Of those that are alike the first ones are taken, so that there is a set for each number of them.
    """
    helds = sorted(candidate.job.held, key=turn_of)
    kinds: dict[_Kind, list[Held]] = {}
    for held in helds:
        kinds.setdefault(_kind_of(held, books), []).append(held)
    alike = list(kinds.values())
    for size in range(1, min(candidate.job.spare, len(helds) - 1) + 1):
        for subset in _unlike_sets(alike, size):
            yield Taken(candidate, tuple(sorted(subset, key=helds.index)))
    yield Taken(candidate, tuple(helds))


def turn_of(held: Held) -> tuple[int, tuple[int, ...], int]:
    """Return by what further replicas of one workload take turns: node, devices, and then the id."""
    return (held.place.node, held.place.devices, held.id)


def _unlike_sets(alike: Sequence[list[Held]], size: int) -> Iterator[list[Held]]:
    """Yield the sets of ``size`` that differ in how many of each kind there are."""
    if not size:
        yield []
        return
    if not alike:
        return
    first, rest = alike[0], alike[1:]
    left = sum(map(len, rest))
    for number in range(min(len(first), size), max(0, size - left) - 1, -1):
        for others in _unlike_sets(rest, size - number):
            yield [*first[:number], *others]


_Kind = tuple[int, tuple[tuple[int, int, int, str], ...]]


def _kind_of(held: Held, books: Books) -> _Kind:
    """Return what a replica's leaving would free: whole devices of one sort are all the same."""
    place = held.place
    if place.node < 0:
        return (place.node, ())
    node = books.nodes[place.node]
    shared = place.mgpu != WHOLE_GPU_MGPU * len(place.devices)
    return (
        place.node,
        tuple(
            (at if shared else -1, node.free_mgpu[at], node.cards_mib[at], node.models[at])
            for at in place.devices
        ),
    )


Chosen = Sequence[Taken]
Cost = tuple[
    int,
    int,
    tuple[Row, ...],
    int,
    int,
    tuple[int, ...],
    tuple[str, ...],
    int,
    tuple[tuple[int, tuple[int, ...]], ...],
]


def cost_of(chosen: Chosen, *, now_us: int, moves: int = 0) -> Cost:
    """Return what a set of victims costs, smallest best, by the rules in their order."""
    parts = [taken for taken in chosen for _ in taken.pieces()]
    workloads = [taken.candidate.job.workload for taken in chosen]
    return (
        sum(taken.whole for taken in chosen),
        max(workload.priority for workload in workloads),
        tuple(sorted(taken.candidate.row for taken in parts)),
        sum(taken.mgpu for taken in chosen),
        sum(max(0, now_us - taken.candidate.last_us) for taken in chosen),
        tuple(sorted(-workload.submitted_at_us for workload in workloads)),
        tuple(sorted(workload.name for workload in workloads)),
        moves,
        tuple(sorted((held.place.node, held.place.devices) for t in chosen for held in t.helds)),
    )
