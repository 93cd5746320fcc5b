"""The one mutable thing: running totals of one cycle, per queue and per device.

Three books are kept. ``now`` holds what is physically held. ``later`` holds what will be held once
every victim is gone and its nominee runs. ``start`` is what both leave free: only there may something
start. Where evictions complete at once, and until something is nominated, all three are one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.core.books import Books, open_books
from scheduler.core.mix import Mix
from scheduler.core.placement import Place, Placer
from scheduler.core.shape import Shape, Shapes
from scheduler.core.snapshot import (
    Department,
    Placement,
    Policy,
    Project,
    QueueQuota,
    Replica,
    Snapshot,
    Workload,
)
from scheduler.core.vocabulary import Kind, Level, ReplicaPhase


@dataclass(slots=True, eq=False, kw_only=True)
class Queue:
    """A department or a project with what it holds. ``bar_mgpu`` is what reclaim measures against."""

    id: int
    name: str
    level: Level
    quota: QueueQuota
    department: Queue | None = None
    limit_mgpu: int = 0
    cpu_limit_milli: int = 0
    memory_limit_mib: int = 0
    bar_mgpu: int = 0
    alloc_mgpu: int = 0
    alloc_cpu_milli: int = 0
    alloc_memory_mib: int = 0
    protected_mgpu: int = 0
    protected_cpu_milli: int = 0
    protected_memory_mib: int = 0

    def add(self, amount: Amount, *, sign: int, preemptible: bool) -> None:
        """Count ``amount`` in (+1) or out (-1)."""
        self.alloc_mgpu += sign * amount.mgpu
        self.alloc_cpu_milli += sign * amount.cpu_milli
        self.alloc_memory_mib += sign * amount.memory_mib
        if not preemptible:
            self.protected_mgpu += sign * amount.mgpu
            self.protected_cpu_milli += sign * amount.cpu_milli
            self.protected_memory_mib += sign * amount.memory_mib


@dataclass(frozen=True, slots=True)
class Amount:
    """What is held or asked for, as queues count it."""

    mgpu: int
    cpu_milli: int
    memory_mib: int


@dataclass(slots=True, eq=False)
class Held:
    """One replica in its place. A negative ``id``: it was started in this cycle."""

    id: int
    place: Place
    started_at_us: int


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A workload with its live replicas (starting or running) and the places kept for it."""

    workload: Workload
    project: Queue
    shape: Shape
    held: list[Held] = field(default_factory=list)
    kept: list[Place] = field(default_factory=list)
    #: It has replicas that are being stopped.
    stopping: int = 0
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

    def amount(self, mgpu: int, replicas: int) -> Amount:
        """Return ``mgpu`` with the CPU and memory of ``replicas`` replicas."""
        shape = self.shape
        return Amount(mgpu, shape.cpu_milli * replicas, shape.memory_mib * replicas)


#: Department rank and surplus, project rank and surplus; the most willing is smallest.
Row = tuple[int, int, int, int, int, int]
NO_ROW: Row = (0, 0, 0, 0, 0, 0)


@dataclass(slots=True, eq=False, kw_only=True)
class Candidate:
    """A workload that may be interrupted. ``order`` tells how willing it is inside its project."""

    job: Job
    mgpu: int
    lost_us: int
    order: tuple[int, int, int, int, str, int]
    #: Where its queues stand among those that give; set by each search.
    row: Row = NO_ROW

    @property
    def key(self) -> tuple[int, Row, tuple[int, int, int, int, str, int]]:
        """Return how willing it is among all, smallest first."""
        return (self.order[0], self.row, self.order)


class Session:
    """A cycle's state. Every change goes through here, so that totals and books agree."""

    def __init__(
        self, snapshot: Snapshot, *, policy: Policy, now_us: int, at_once: bool = False
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.now_us = now_us
        #: Evictions complete at once (cases, previews, simulation).
        self.at_once = at_once
        #: By name, so that a node's position is also its rank.
        nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
        self.nodes = nodes
        self.shapes = Shapes(nodes)
        self.departments = {each.id: _queue_of(each, None) for each in snapshot.departments}
        self.projects = {
            each.id: _queue_of(each, self.departments[each.department_id])
            for each in snapshot.projects
        }
        self.jobs: dict[int, Job] = {}
        #: By project, those that may be interrupted, most willing first; made on first use.
        self._candidates: dict[int, list[Candidate]] = {}
        #: By project, how many of them have further replicas.
        self._elastic: dict[int, int] = {}
        #: Jobs with live replicas, by project.
        self.running: dict[int, dict[int, Job]] = {each: {} for each in self.projects}
        self.now = self.later = self.start = open_books(nodes)
        #: What the nodes hold when nothing runs.
        self.empty_books = open_books(nodes)
        self.mix = Mix(_count_shapes(self.shapes, snapshot.workloads))
        self._placers: dict[int, Placer] = {}
        self._firm: Books | None = None
        #: By node position, the jobs with replicas there; made on first use.
        self._on_node: dict[int, dict[Job, None]] | None = None
        #: Jobs for which places are kept.
        self.keeping: dict[int, Job] = {}
        #: Raised by every release: what failed before may fit now.
        self.releases = 0
        self._last_new_id = 0
        #: Whose replica each id is, of all that ran at some time in this cycle.
        self.owners: dict[int, int] = {}
        _load(self)

    def candidates(self, project: Queue) -> list[Candidate]:
        """Return who of ``project`` may be interrupted, most willing first."""
        found = self._candidates.get(project.id)
        if found is None:
            found = self._candidates[project.id] = []
            self._elastic[project.id] = 0
            for job in self.running[project.id].values():
                self._add_candidate(job)
            found.sort(key=_order_of)
        return found

    def has_elastic(self, project: Queue) -> bool:
        """Test whether some of ``project``'s candidates have further replicas."""
        self.candidates(project)
        return self._elastic[project.id] > 0

    def _add_candidate(self, job: Job) -> Candidate | None:
        if not self.is_interruptible(job):
            return None
        lost_us = self._lost_us(job)
        mgpu = sum(held.place.mgpu for held in job.held)
        workload = job.workload
        job.candidate = Candidate(
            job=job,
            mgpu=mgpu,
            lost_us=lost_us,
            order=(
                workload.priority,
                mgpu,
                lost_us,
                -workload.submitted_at_us,
                workload.name,
                workload.id,
            ),
        )
        self._candidates[job.project.id].append(job.candidate)
        self._elastic[job.project.id] += job.spare > 0
        return job.candidate

    def _withdraw_candidate(self, job: Job) -> None:
        """Take ``job`` out of the candidates, before its replicas change."""
        if job.candidate is None:
            return
        found = self._candidates[job.project.id]
        del found[bisect_left(found, job.candidate.order, key=_order_of)]
        self._elastic[job.project.id] -= job.spare > 0
        job.candidate = None

    def _enter_candidate(self, job: Job) -> None:
        """Put ``job`` among the candidates, after its replicas changed."""
        found = self._candidates.get(job.project.id)
        if found is not None and self._add_candidate(job) is not None:
            insort(found, found.pop(), key=_order_of)

    def is_interruptible(self, job: Job) -> bool:
        """Test whether ``job`` runs, is preemptible, past its minimum runtime and not just served."""
        if not job.held or not job.workload.preemptible or job.is_shielded:
            return False
        if not self.policy.min_runtime_s:
            return True
        since = None if job.is_new else job.workload.running_since_us
        if since is None:
            since = min(held.started_at_us for held in job.held)
        return self.now_us - since >= self.policy.min_runtime_s * 1_000_000

    def _lost_us(self, job: Job) -> int:
        """Return the work lost by stopping ``job``: time since its last start or checkpoint mark."""
        last = max(held.started_at_us for held in job.held)
        if job.workload.running_since_us is not None:
            last = max(last, job.workload.running_since_us)
        if job.workload.checkpoint_at_us is not None:
            last = max(last, job.workload.checkpoint_at_us)
        return max(0, self.now_us - last)

    def firm_books(self) -> Books:
        """Return the books in which only what can never be interrupted holds: a bound on every trial."""
        if self._firm is None:
            self._firm = self.later.copy()
            for jobs in self.running.values():
                for job in jobs.values():
                    if job.workload.preemptible:
                        _release(self._firm, job)
        return self._firm

    def placer(self, books: Books) -> Placer:
        """Return the placer of ``books``."""
        placer = self._placers.get(id(books))
        if placer is None:
            placer = Placer(books, mix=self.mix, spread=self.policy.spread)
            self._placers[id(books)] = placer
        return placer

    def job_of(self, workload: Workload) -> Job:
        """Return the job of ``workload``, made on first use."""
        job = self.jobs.get(workload.id)
        if job is None:
            job = Job(
                workload=workload,
                project=self.projects[workload.project_id],
                shape=self.shapes.of(workload),
            )
            self.jobs[workload.id] = job
        return job

    def start_replicas(self, job: Job, places: Sequence[Place]) -> None:
        """Count ``places``, already taken in the start books, as started replicas of ``job``."""
        for books in self._other_books(self.start):
            for place in places:
                books.move(place.node, job.shape, place.devices, -1)
        self._hold_firm(job, places, -1)
        self._add_held(job, places)
        self.count(job, sum(place.mgpu for place in places), len(places), 1)

    def keep(self, job: Job, places: Sequence[Place]) -> None:
        """Count ``places``, already taken in the later books, as kept for ``job``."""
        job.kept.extend(places)
        self.keeping[job.workload.id] = job
        self._hold_firm(job, places, -1)
        self.count(job, sum(place.mgpu for place in places), len(places), 1)
        self.refresh_start(place.node for place in places)

    def drop_kept(self, job: Job) -> None:
        """Give up the places kept for ``job``."""
        places, job.kept = job.kept, []
        self.keeping.pop(job.workload.id, None)
        self._hold_firm(job, places, 1)
        self.count(job, sum(place.mgpu for place in places), len(places), -1)
        for place in places:
            self.later.move(place.node, job.shape, place.devices, 1)
        self.refresh_start(place.node for place in places)
        self.releases += 1

    def start_kept(self, job: Job) -> list[Place]:
        """Turn the places kept for ``job`` into running replicas."""
        places, job.kept = job.kept, []
        self.keeping.pop(job.workload.id, None)
        for place in places:
            self.now.move(place.node, job.shape, place.devices, -1)
        job.is_shielded = True
        self._add_held(job, places)
        self.refresh_start(place.node for place in places)
        return places

    def remove(self, job: Job, helds: Iterable[Held]) -> None:
        """Take replicas out as victims: at once, or out of ``later`` while they are being stopped."""
        gone = list(helds)
        for held in gone:
            place = held.place
            books = self._all_books() if self._vanishes(held) else (self.later,)
            for each in books if place.node >= 0 else ():
                each.move(place.node, job.shape, place.devices, 1)
            if not self._vanishes(held):
                job.stopping += 1
        self._drop_held(job, gone)
        self.count(job, sum(held.place.mgpu for held in gone), len(gone), -1)
        self.refresh_start(held.place.node for held in gone)
        self.releases += 1

    def relocate(self, job: Job, held: Held, place: Place) -> None:
        """Move a replica: at once, or keep ``place`` for it while it is being stopped."""
        before = held.place
        self.later.move(before.node, job.shape, before.devices, 1)
        self.later.move(place.node, job.shape, place.devices, -1)
        self.count(job, place.mgpu - before.mgpu, 0, 1)
        self.releases += 1
        if self.at_once:
            self._withdraw_candidate(job)
            held.place = place
            self._note_nodes(job)
            self._enter_candidate(job)
            return
        job.stopping += 1
        self._drop_held(job, (held,))
        job.kept.append(place)
        self.keeping[job.workload.id] = job
        self.refresh_start((before.node, place.node))

    def lose(self, job: Job) -> None:
        """Take all replicas of a broken gang out; where they are stopped first they go on holding."""
        if self.at_once:
            self.remove(job, job.held)
            return
        job.stopping += len(job.held)
        self._drop_held(job, list(job.held))

    def split_books(self) -> None:
        """Part the three books, before something is stopped that others wait for."""
        if self.at_once or self.later is not self.now:
            return
        self.later = self.now.copy()
        self.start = self.now.copy()

    def refresh_start(self, positions: Iterable[int]) -> None:
        """Set what may be started on to what both other books leave free."""
        if self.start is self.now:
            return
        for position in sorted({each for each in positions if each >= 0}):
            self.start.set_to_least(position, self.now.nodes[position], self.later.nodes[position])

    def count(self, job: Job, mgpu: int, replicas: int, sign: int) -> None:
        """Count replicas of ``job`` in or out at both levels of queues."""
        amount = job.amount(mgpu, replicas)
        preemptible = job.workload.preemptible
        job.project.add(amount, sign=sign, preemptible=preemptible)
        department = job.project.department
        assert department is not None
        department.add(amount, sign=sign, preemptible=preemptible)

    def _add_held(self, job: Job, places: Iterable[Place]) -> None:
        self._withdraw_candidate(job)
        if not job.held:
            job.is_new = True
        job.held.extend(self._new_held(job, place) for place in places)
        self.running[job.project.id][job.workload.id] = job
        self._note_nodes(job)
        self._enter_candidate(job)

    def _drop_held(self, job: Job, gone: Collection[Held]) -> None:
        self._withdraw_candidate(job)
        job.held = [held for held in job.held if held not in gone]
        if job.held:
            self._enter_candidate(job)
        else:
            self.running[job.project.id].pop(job.workload.id, None)

    def jobs_on(self, position: int) -> Iterable[Job]:
        """Return the jobs with live replicas on the node at ``position``."""
        if self._on_node is None:
            self._on_node = {}
            for jobs in self.running.values():
                for job in jobs.values():
                    self._note_nodes(job)
        return self._on_node.get(position, ())

    def _note_nodes(self, job: Job) -> None:
        """Note where ``job`` runs. It may be noted where it no longer does: who asks looks again."""
        if self._on_node is not None:
            for held in job.held:
                self._on_node.setdefault(held.place.node, {})[job] = None

    def _hold_firm(self, job: Job, places: Iterable[Place], sign: int) -> None:
        if self._firm is not None and not job.workload.preemptible:
            for place in places:
                self._firm.move(place.node, job.shape, place.devices, sign)

    def _new_held(self, job: Job, place: Place) -> Held:
        self._last_new_id -= 1
        self.owners[self._last_new_id] = job.workload.id
        return Held(self._last_new_id, place, self.now_us)

    def _vanishes(self, held: Held) -> bool:
        return self.at_once or held.id < 0

    def _all_books(self) -> tuple[Books, ...]:
        if self.later is self.now:
            return (self.now,)
        return (self.now, self.later, self.start)

    def _other_books(self, books: Books) -> tuple[Books, ...]:
        return tuple(each for each in self._all_books() if each is not books)


def _order_of(candidate: Candidate) -> tuple[int, int, int, int, str, int]:
    return candidate.order


def _release(books: Books, job: Job) -> None:
    for held in job.held:
        if held.place.node >= 0:
            books.move(held.place.node, job.shape, held.place.devices, 1)


def place_of(session: Session, shape: Shape, placement: Placement) -> Place | None:
    """Return ``placement`` by positions; None where the node or a device is not there."""
    position = session.now.position_of.get(placement.node)
    if position is None:
        return None
    node = session.now.nodes[position]
    devices = node.positions_of(placement.devices)
    if len(devices) != len(placement.devices):
        return None
    return Place(position, devices, node.cost_at(shape, devices))


def placement_of(session: Session, place: Place) -> Placement:
    """Return ``place`` by names and device indices."""
    node = session.now.nodes[place.node]
    return Placement(node=node.name, devices=tuple(node.indices[at] for at in place.devices))


def _queue_of(row: Department | Project, department: Queue | None) -> Queue:
    quota = row.quota
    return Queue(
        id=row.id,
        name=row.name,
        level=Level.DEPARTMENT if department is None else Level.PROJECT,
        quota=quota,
        department=department,
        limit_mgpu=quota.effective_limit_mgpu,
        cpu_limit_milli=quota.cpu_limit_milli if quota.over_quota else quota.cpu_quota_milli,
        memory_limit_mib=quota.memory_limit_mib if quota.over_quota else quota.memory_quota_mib,
        bar_mgpu=quota.quota_mgpu,
    )


def _count_shapes(shapes: Shapes, workloads: Iterable[Workload]) -> Iterable[tuple[Shape, int]]:
    counts: dict[Shape, int] = {}
    for workload in workloads:
        shape = shapes.of(workload)
        wanted = max(workload.min_replicas, workload.max_replicas, len(workload.replicas))
        counts[shape] = counts.get(shape, 0) + wanted
    return counts.items()


def _load(session: Session) -> None:
    """Put what holds a place into the books: first what is there, then what is kept."""
    holding = [each for each in session.snapshot.workloads if each.replicas or each.nominated]
    nominees = {each.id for each in holding if each.nominated}
    vacating: list[tuple[Job, Place]] = []
    for workload in holding:
        job = session.job_of(workload)
        for replica in workload.replicas:
            _load_replica(session, job, replica, nominees, vacating)
        if job.held:
            session.running[job.project.id][workload.id] = job
    if vacating or nominees:
        session.split_books()
    for job, place in vacating:
        session.later.move(place.node, job.shape, place.devices, 1)
    session.refresh_start(place.node for _, place in vacating)
    for workload in holding:
        if workload.nominated:
            _load_kept(session, session.jobs[workload.id])


def _load_replica(
    session: Session,
    job: Job,
    replica: Replica,
    nominees: set[int],
    vacating: list[tuple[Job, Place]],
) -> None:
    if replica.phase is ReplicaPhase.ENDED:
        return
    stopping = replica.phase is ReplicaPhase.STOPPING
    vacated = stopping and replica.vacated_for_id in nominees
    if vacated and session.at_once:
        return
    job.stopping += stopping
    place = place_of(session, job.shape, replica.placement)
    if place is None:  # on a node that left: it holds an amount but no device
        place = Place(-1, (), job.shape.replica_mgpu)
    else:
        session.now.move(place.node, job.shape, place.devices, -1)
    if not vacated:
        session.count(job, place.mgpu, 1, 1)
    elif place.node >= 0:
        vacating.append((job, place))
    if not stopping:
        session.owners[replica.id] = job.workload.id
        job.held.append(Held(replica.id, place, replica.started_at_us))


def _load_kept(session: Session, job: Job) -> None:
    places = [place_of(session, job.shape, each) for each in job.workload.nominated]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return  # a place is gone: the nomination is dropped, nothing is counted
    for place in known:
        session.later.move(place.node, job.shape, place.devices, -1)
    session.keep(job, known)
