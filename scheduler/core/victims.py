"""Victims: who could be interrupted, how willing each is, and what a set of them costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from scheduler.core.books import Books
from scheduler.core.ordering import ratio
from scheduler.core.session import Held, Job, Queue, Session
from scheduler.core.snapshot import Policy
from scheduler.core.units import WHOLE_GPU_MGPU

#: Department rank and surplus, project rank and surplus; the most willing is smallest.
Row = tuple[int, int, int, int, int, int]


@dataclass(slots=True, eq=False, kw_only=True)
class Candidate:
    """A workload that may be interrupted, as it stood before anything was taken."""

    job: Job
    row: Row
    mgpu: int
    lost_us: int

    @property
    def key(self) -> tuple[int, Row, int, int, int, str, int]:
        """Return how willing it is, smallest first."""
        workload = self.job.workload
        return (
            workload.priority,
            self.row,
            self.mgpu,
            self.lost_us,
            -workload.submitted_at_us,
            workload.name,
            workload.id,
        )


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


def is_interruptible(job: Job, policy: Policy, now_us: int) -> bool:
    """Test whether ``job`` runs, is preemptible, and is past its minimum runtime."""
    if not job.held or not job.workload.preemptible:
        return False
    if not policy.min_runtime_s:
        return True
    return now_us - _running_since(job) >= policy.min_runtime_s * 1_000_000


def _running_since(job: Job) -> int:
    since = None if job.is_new else job.workload.running_since_us
    return min(held.started_at_us for held in job.held) if since is None else since


def candidate_of(session: Session, job: Job, row: Row) -> Candidate:
    """Return ``job`` as a candidate in a queue that stands at ``row``."""
    return Candidate(
        job=job,
        row=row,
        mgpu=sum(held.place.mgpu for held in job.held),
        lost_us=lost_us(session, job),
    )


def lost_us(session: Session, job: Job) -> int:
    """Return the work lost by stopping ``job``: time since its last start or checkpoint mark."""
    last = max(held.started_at_us for held in job.held)
    if job.workload.running_since_us is not None:
        last = max(last, job.workload.running_since_us)
    if job.workload.checkpoint_at_us is not None:
        last = max(last, job.workload.checkpoint_at_us)
    return max(0, session.now_us - last)


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
    """Yield what can be taken of a candidate: sets of further replicas, unlike ones only, or all."""
    helds = sorted(candidate.job.held, key=lambda held: (held.place.node, held.place.devices))
    seen = set()
    for size in range(1, candidate.job.spare + 1):
        if size == len(helds):
            break
        for subset in combinations(helds, size):
            kind = tuple(sorted(_kind_of(held, books) for held in subset))
            if kind not in seen:
                seen.add(kind)
                yield Taken(candidate, subset)
    yield Taken(candidate, tuple(helds))


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


def cost_of(chosen: Chosen, *, moves: int = 0) -> Cost:
    """Return what a set of victims costs, smallest best, by the rules in their order."""
    parts = [taken for taken in chosen for _ in taken.pieces()]
    workloads = [taken.candidate.job.workload for taken in chosen]
    return (
        sum(taken.whole for taken in chosen),
        max(workload.priority for workload in workloads),
        tuple(sorted(taken.candidate.row for taken in parts)),
        sum(taken.mgpu for taken in chosen),
        sum(taken.candidate.lost_us for taken in chosen),
        tuple(sorted(-workload.submitted_at_us for workload in workloads)),
        tuple(sorted(workload.name for workload in workloads)),
        moves,
        tuple(sorted((held.place.node, held.place.devices) for t in chosen for held in t.helds)),
    )
