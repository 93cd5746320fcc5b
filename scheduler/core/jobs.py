"""Jobs: a workload with its replicas in their places, and what it is as a candidate for interruption."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.placement import Place
from scheduler.core.queues import Amount, Queue
from scheduler.core.shape import Shape
from scheduler.core.snapshot import Workload
from scheduler.core.vocabulary import Kind


@dataclass(slots=True, eq=False)
class Held:
    """One replica in its place. A negative ``id``: it was started in this cycle."""

    id: int
    place: Place
    started_at_us: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """The place of a replica that is being stopped. ``is_vacated``: for a workload for which places
    are kept; queues then no longer count it.
    """

    place: Place
    is_vacated: bool


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A workload with its live replicas (starting or running) and the places kept for it."""

    workload: Workload
    project: Queue
    shape: Shape
    held: list[Held] = field(default_factory=list)
    kept: list[Place] = field(default_factory=list)
    #: Its replicas that are being stopped.
    leaving: list[Leaving] = field(default_factory=list)
    #: The number of the pass in which it was last a victim.
    victim_in_pass: int = 0
    #: Its held replicas were all started in this cycle.
    is_new: bool = False
    #: It starts where places were kept for it: nobody takes them in the same cycle.
    is_shielded: bool = False
    #: What it is as a candidate, where its project's candidates were asked for.
    candidate: Candidate | None = None

    @property
    def live(self) -> int:
        """Return how many replicas run, start, or have a place kept."""
        return len(self.held) + len(self.kept)

    @property
    def wanted(self) -> int:
        """Return how many replicas it is to have; a gang never fewer than its minimum."""
        if self.is_service:
            return self.workload.max_replicas
        return max(1, self.workload.min_replicas, self.workload.max_replicas)

    @property
    def minimum(self) -> int:
        """Return how many replicas it has before the further ones begin."""
        least = self.workload.min_replicas
        return least if self.is_service else max(1, least)

    @property
    def spare(self) -> int:
        """Return how many further replicas run: those above the minimum."""
        return max(0, len(self.held) - self.minimum)

    @property
    def is_service(self) -> bool:
        """Test whether each replica is admitted by itself."""
        return self.workload.kind is Kind.INFERENCE

    @property
    def is_broken(self) -> bool:
        """Test whether it is a gang that holds places, but fewer than its minimum."""
        return bool(self.held) and not self.is_service and self.live < self.minimum

    def amount(self, mgpu: int, replicas: int) -> Amount:
        """Return ``mgpu`` with the CPU and memory of ``replicas`` replicas."""
        shape = self.shape
        return Amount(mgpu, shape.cpu_milli * replicas, shape.memory_mib * replicas)


#: Department rank and surplus, project rank and surplus; the most willing is smallest.
Row = tuple[int, int, int, int, int, int]
NO_ROW: Row = (0, 0, 0, 0, 0, 0)
#: Priority, amount, the later the last start or mark the more willing, age, name, id.
Willingness = tuple[int, int, int, int, str, int]


@dataclass(slots=True, eq=False, kw_only=True)
class Candidate:
    """A workload that may be interrupted. ``order`` tells how willing it is inside its project."""

    job: Job
    mgpu: int
    #: Its last start or checkpoint mark: work since then is lost.
    last_us: int
    order: Willingness
    #: Where its queues stand among those that give; set by each search.
    row: Row = NO_ROW

    @property
    def key(self) -> tuple[int, Row, Willingness]:
        """Return how willing it is among all, smallest first."""
        return (self.order[0], self.row, self.order)


def candidate_of(job: Job) -> Candidate:
    """Return what ``job``, which runs, is as a candidate."""
    workload = job.workload
    last_us = max([held.started_at_us for held in job.held])
    if workload.running_since_us is not None and workload.running_since_us > last_us:
        last_us = workload.running_since_us
    if workload.checkpoint_at_us is not None and workload.checkpoint_at_us > last_us:
        last_us = workload.checkpoint_at_us
    mgpu = sum([held.place.mgpu for held in job.held])
    return Candidate(
        job=job,
        mgpu=mgpu,
        last_us=last_us,
        order=(
            workload.priority,
            mgpu,
            -last_us,
            -workload.submitted_at_us,
            workload.name,
            workload.id,
        ),
    )
