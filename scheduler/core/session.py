"""The one mutable thing: running totals of one cycle, per queue and per device.

Three books are kept. ``now`` holds what is physically held. ``later`` holds what will be held once
every victim is gone and its nominee runs. ``start`` is what both leave free: only there may something
start. Where evictions complete at once, and until something is nominated, all three are one.

``load.py`` fills it from the facts, for one cycle or from cycle to cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from scheduler.core.books import Books, open_books
from scheduler.core.clearable import Clearable, Cleared
from scheduler.core.facts import Facts
from scheduler.core.jobs import Held, Job, Leaving
from scheduler.core.lesser import Lesser
from scheduler.core.mix import Mix
from scheduler.core.placement import Place, Placer
from scheduler.core.queues import Queue, queue_of
from scheduler.core.roster import Roster
from scheduler.core.shape import Shape, Shapes
from scheduler.core.snapshot import Placement, Policy, QueueQuota, Snapshot, Workload


class Session:
    """A cycle's state. Every change goes through here, so that totals and books agree."""

    def __init__(
        self, snapshot: Snapshot, *, policy: Policy, now_us: int, at_once: bool = False
    ) -> None:
        self.policy = policy
        self.now_us = now_us
        #: Evictions complete at once (cases, previews, simulation).
        self.at_once = at_once
        #: By name, so that a node's position is also its rank.
        nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
        self.nodes = nodes
        self.shapes = Shapes(nodes)
        self.departments = {each.id: queue_of(each, None) for each in snapshot.departments}
        self.projects = {
            each.id: queue_of(each, self.departments[each.department_id])
            for each in snapshot.projects
        }
        #: By department.
        self.projects_of: dict[int, list[Queue]] = {each: [] for each in self.departments}
        for project in self.projects.values():
            assert project.department is not None
            self.projects_of[project.department.id].append(project)
        self.facts = Facts(self.projects)
        #: Workloads that hold a place or had a part in this cycle, by id.
        self.jobs: dict[int, Job] = {}
        self.roster = Roster(self.projects, min_runtime_s=policy.min_runtime_s, now_us=now_us)
        #: What would fit without the lesser work of a project.
        self.lesser = Lesser(self.roster)
        self.now = self.later = self.start = open_books(nodes)
        #: The three books may say different things.
        self.is_parted = False
        #: What the nodes hold when nothing runs.
        self.empty_books = open_books(nodes)
        self._placers: dict[int, Placer] = {}
        self._firm: Books | None = None
        self._mix: Mix | None = None
        self._mix_counts: dict[Shape, int] = {}
        #: Projects that came above their bar or below it, or whose department did, one after the other.
        self.crossings: list[Queue] = []
        self._cleared: Cleared | None = None
        self._clearable: dict[int, Clearable] = {}
        #: Gangs of which less than the minimum was left when they were loaded, by id.
        self.broken: dict[int, Job] = {}
        #: Jobs for which places are kept.
        self.keeping: dict[int, Job] = {}
        #: Raised by every release: what failed before may fit now.
        self.releases = 0
        #: Whose replica each new id is, of all that were started in this cycle.
        self.new_owners: dict[int, int] = {}
        #: Workloads whose state is no longer the one that was loaded.
        self.touched: set[int] = set()

    def begin_cycle(self, now_us: int) -> None:
        """Go on to another cycle. What the last one touched is for the caller to load anew."""
        self.now_us = now_us
        self.roster.set_time(now_us)
        self.new_owners.clear()
        self.releases = 0
        if self.policy.min_runtime_s:
            self._forget_clearable()
            self.lesser.clear()

    @property
    def log_length(self) -> int:
        """Return how many changes were noted, in all, for what follows them."""
        return len(self.now.log) + len(self.later.log) + len(self.crossings)

    @property
    def mix(self) -> Mix:
        """Return what the pool is asked for, as it was when placement was first asked for."""
        if self._mix is None:
            self._mix_counts = dict(self.facts.mix_counts())
            self._mix = Mix(self._mix_counts.items())
        return self._mix

    def renew_mix(self) -> None:
        """Bring the mix up to date with the facts."""
        if self._mix is not None and self._mix_counts != dict(self.facts.mix_counts()):
            self._mix = None
            for placer in self._placers.values():
                placer.set_mix(self.mix, spread=self.policy.spread)

    def firm_books(self) -> Books:
        """Return the books in which only what can never be interrupted holds: a bound on every trial."""
        if self._firm is None:
            self._firm = self.empty_books.copy()
            for job in self.jobs.values():
                self.hold_firm(job, -1)
        return self._firm

    def hold_firm(self, job: Job, sign: int) -> None:
        """Count what ``job`` holds beyond this cycle in the firm books, if it can't be interrupted."""
        if self._firm is None or job.workload.preemptible:
            return
        places = [held.place for held in job.held]
        places += job.kept
        places += [each.place for each in job.leaving if not each.is_vacated]
        for place in places:
            if place.node >= 0:
                self._firm.move(place.node, job.shape, place.devices, sign)

    def clearable(self, department: Queue) -> Clearable:
        """Return what would be free if all that ``department`` may take back were gone."""
        found = self._clearable.get(department.id)
        if found is None:
            if self._cleared is None:
                self._cleared = Cleared(
                    self.later,
                    projects=self.projects.values(),
                    roster=self.roster,
                    crossings=self.crossings,
                )
            found = self._clearable[department.id] = Clearable(
                self._cleared, department, self.projects_of[department.id]
            )
        return found

    def _forget_clearable(self) -> None:
        self._clearable.clear()
        self._cleared = None

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
        for books in self._all_books():
            if books is not self.start:
                for place in places:
                    books.move(place.node, job.shape, place.devices, -1)
        self._add_held(job, places)
        self.count(job, sum([place.mgpu for place in places]), len(places), 1)

    def keep(self, job: Job, places: Sequence[Place]) -> None:
        """Count ``places``, already taken in the later books, as kept for ``job``."""
        self.touched.add(job.workload.id)
        self.hold_firm(job, 1)
        job.kept.extend(places)
        self.hold_firm(job, -1)
        self.keeping[job.workload.id] = job
        self.count(job, sum(place.mgpu for place in places), len(places), 1)
        self.refresh_start(place.node for place in places)

    def drop_kept(self, job: Job) -> None:
        """Give up the places kept for ``job``."""
        self.touched.add(job.workload.id)
        self.hold_firm(job, 1)
        places, job.kept = job.kept, []
        self.hold_firm(job, -1)
        self.keeping.pop(job.workload.id, None)
        self.count(job, sum(place.mgpu for place in places), len(places), -1)
        for place in places:
            self.later.move(place.node, job.shape, place.devices, 1)
        self.refresh_start(place.node for place in places)
        self.releases += 1

    def start_kept(self, job: Job) -> list[Place]:
        """Turn the places kept for ``job`` into running replicas."""
        self.hold_firm(job, 1)
        places, job.kept = job.kept, []
        self.hold_firm(job, -1)
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
            vanishes = self.at_once or held.id < 0
            books = self._all_books() if vanishes else (self.later,)
            for each in books if place.node >= 0 else ():
                each.move(place.node, job.shape, place.devices, 1)
            if not vanishes:
                job.leaving.append(Leaving(place, is_vacated=True))
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
            self.roster.before_change(job)
            held.place = place
            self.roster.after_change(job)
            return
        self._drop_held(job, (held,))
        job.leaving.append(Leaving(before, is_vacated=True))
        job.kept.append(place)
        self.keeping[job.workload.id] = job
        self.refresh_start((before.node, place.node))

    def lose(self, job: Job) -> None:
        """Take all replicas of a broken gang out; where they are stopped first they go on holding."""
        if self.at_once:
            self.remove(job, job.held)
            return
        gone = list(job.held)
        self._drop_held(job, gone)
        self.hold_firm(job, 1)
        job.leaving.extend(Leaving(held.place, is_vacated=False) for held in gone)
        self.hold_firm(job, -1)

    def split_books(self) -> None:
        """Part the three books, before something is stopped that others wait for."""
        if self.at_once or self.is_parted:
            return
        self.is_parted = True
        if self.later is self.now:
            if self._cleared is not None:
                self._cleared.follow()
            self.later = self.now.copy()
            self.start = self.now.copy()
            if self._cleared is not None:
                self._cleared.set_later(self.later)

    def join_books(self) -> None:
        """Note that nothing is kept, and nothing stops that others wait for: the books say the same."""
        self.is_parted = False

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
        project = job.project
        department = project.department
        assert department is not None
        if project.add(amount, sign=sign, preemptible=preemptible):
            self.crossings.append(project)
        if department.add(amount, sign=sign, preemptible=preemptible):
            self.crossings.extend(self.projects_of[department.id])

    def set_bounds(self, queue: Queue, quota: QueueQuota) -> None:
        """Set quota and limits of ``queue``, and what reclaim measures it against."""
        bar_mgpu = queue.bar_mgpu
        queue.set_bounds(quota)
        queue.bar_mgpu = bar_mgpu
        self.set_bar(queue, quota.quota_mgpu)

    def set_bar(self, queue: Queue, mgpu: int) -> None:
        """Set what reclaim measures ``queue`` against."""
        was_above = queue.is_above_bar
        queue.bar_mgpu = mgpu
        if was_above != queue.is_above_bar:
            is_project = queue.department is not None
            self.crossings.extend([queue] if is_project else self.projects_of[queue.id])

    def note_nodes(self, job: Job) -> None:
        """Note in the later books' log that other work may be taken where ``job`` runs than before."""
        self.later.log.extend([held.place.node for held in job.held if held.place.node >= 0])

    def _add_held(self, job: Job, places: Iterable[Place]) -> None:
        self.touched.add(job.workload.id)
        self.hold_firm(job, 1)
        self.roster.before_change(job)
        if not job.held:
            job.is_new = True
        job.held.extend([self._new_held(job, place) for place in places])
        self.roster.after_change(job)
        self.hold_firm(job, -1)
        self.note_nodes(job)

    def _drop_held(self, job: Job, gone: Collection[Held]) -> None:
        self.touched.add(job.workload.id)
        self.hold_firm(job, 1)
        self.note_nodes(job)
        self.roster.before_change(job)
        job.held = [held for held in job.held if held not in gone]
        self.roster.after_change(job)
        self.hold_firm(job, -1)

    def _new_held(self, job: Job, place: Place) -> Held:
        new_id = -1 - len(self.new_owners)
        self.new_owners[new_id] = job.workload.id
        return Held(new_id, place, self.now_us)

    def _all_books(self) -> tuple[Books, ...]:
        if self.later is self.now:
            return (self.now,)
        return (self.now, self.later, self.start)


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
    return Placement(node=node.name, devices=tuple([node.indices[at] for at in place.devices]))
