"""decide(snapshot, policy, now) -> Plan: one cycle, passes until one changes nothing.

``decide`` serves the live cycle: victims hold their devices until they are gone, and places are kept
for the workload that they are vacated for. ``settle`` serves cases, previews and simulation, where
evictions complete at once. Both run the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core import nomination, preempt, quota, reclaim
from scheduler.core.allocate import find_places
from scheduler.core.choice import Found
from scheduler.core.consolidate import find_moves
from scheduler.core.holds import explain_waiting
from scheduler.core.jobs import Job
from scheduler.core.load import open_session
from scheduler.core.ordering import Order
from scheduler.core.plan import Holds, Plan
from scheduler.core.record import Recorder
from scheduler.core.reservation import Reservations
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.snapshot import Policy, Snapshot
from scheduler.core.state import State, state_of
from scheduler.core.victims import Taken
from scheduler.core.vocabulary import Rule
from scheduler.core.waiting import Line, Request


def decide(*, snapshot: Snapshot, policy: Policy, now_us: int) -> Plan:
    """Return one live cycle's decisions. Pure: the same input gives the same output."""
    return run(open_session(snapshot, policy=policy, now_us=now_us))


def settle(*, snapshot: Snapshot, policy: Policy, now_us: int) -> Plan:
    """Return one cycle's decisions where evictions complete at once."""
    return run(open_session(snapshot, policy=policy, now_us=now_us, at_once=True))


def run(session: Session) -> Plan:
    """Run one cycle on ``session``, which afterwards holds the resulting state."""
    return run_on(state_of(session))


def run_on(state: State) -> Plan:
    """Run one cycle on ``state``, which afterwards holds what was decided."""
    return _Cycle(state).run()


class _Cycle:
    """One cycle in work: what waits, in which order, and what was decided so far."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.session = session = state.session
        self.waiting = state.waiting
        self.recorder = Recorder(session)
        self.pass_number = 1
        self.returning: list[Job] = []
        #: Lines for which not even all lesser work of their project makes room.
        self.marks: dict[Line, preempt.Mark] = {}
        #: How far the later books' log had come at the last release.
        self.woken_at = 0
        #: Groups without a place, of which all that can't take one were set aside.
        self.swept: set[tuple[Shape, int]] = set()
        #: Lines that looked for victims in vain, and were not marked.
        self.searchers: dict[Line, None] = {}
        #: Projects that started or lost something since the last release.
        self.moved: set[int] = set()

    def run(self) -> Plan:
        session = self.session
        departments, projects = self.state.shares.divide()
        if session.policy.fair_share_reclaim:
            _raise_bars(session, departments, projects)
        dropped = nomination.settle_nominations(session, self.recorder)
        for workload_id in session.facts.nominees:
            self._renew_request(session.jobs[workload_id])
        self._evict_broken_gangs(dropped)
        self.reservations = Reservations(session, self.waiting)
        self.order = Order(session, self.waiting)
        if not session.policy.consolidation:
            self._set_hopeless_aside()
        while self._run_pass():
            self._readmit_victims()
        return Plan(
            decisions=self.recorder.decisions(),
            holds=Holds(
                explain_waiting(
                    session, self.waiting, self.reservations, self.state.shortages_at_end()
                )
            ),
            fair_share_projects=projects,
            fair_share_departments=departments,
            dropped_nominations=dropped,
            starving_ids=self.reservations.starving_ids(),
            reservations=self.reservations.nodes(),
        )

    def _set_hopeless_aside(self) -> None:
        """Set aside, before any is tried in turn, what is known to fail whatever else is tried."""
        for group, lines in self.waiting.groups.items():
            has_places = self._has_places(lines[0])
            if not has_places:
                self.swept.add(group)
            for line in lines:
                if len(line) and not self._is_worth_a_first_try(line, has_places=has_places):
                    line.aside = True

    def _is_worth_a_first_try(self, line: Line, *, has_places: bool) -> bool:
        session = self.session
        passes = _passes_checks(line)
        if has_places and passes:
            return True
        is_entitled, has_lesser = _is_entitled(line), self._has_lesser_work(line)
        if not (is_entitled or has_lesser) or self._is_lost(line):
            return False
        if passes and self._waits_for_vacated(line):
            return False
        if is_entitled:
            self.searchers[line] = None
            if reclaim.could_clear(session, line.project, line.shape, line.count):
                return True
        return has_lesser and preempt.reach_of(session, line.head()) >= line.count

    def _run_pass(self) -> bool:
        """Try until every waiting request is set aside or is a victim of this pass; True: go on."""
        changed = False
        while (line := self.order.next()) is not None:
            if self._try(line):
                changed = True
            else:
                self._set_aside(line)
        return changed and bool(self.returning)

    def _set_aside(self, line: Line) -> None:
        """Set ``line`` aside, and with it all that need the same places and can't take them either."""
        self.order.set_aside(line)
        group = (line.shape, line.count)
        if group in self.swept or self._has_places(line):
            return
        self.swept.add(group)
        for other in self.waiting.groups[group]:
            if not other.aside and len(other) and not self._may_take(other):
                self.order.set_aside(other)

    def _has_places(self, line: Line) -> bool:
        placer = self.session.placer(self.session.start)
        return placer.slots(line.shape).total >= line.count

    def _readmit_victims(self) -> None:
        self.pass_number += 1
        for job in self.returning:
            self.waiting.enter(job.workload)
            self.order.touch(job.project)
        self.returning.clear()

    def _try(self, line: Line) -> bool:
        """Try the first request of ``line``: start, else move, else reclaim, else preempt."""
        session = self.session
        request = self.reservations.bar(line.head())
        if line.failed_at_release != session.releases:
            places = find_places(session, request)
            if places is not None:
                job = session.job_of(request.workload)
                session.start_replicas(job, places)
                self.recorder.start(job, len(places))
                self._leave(line, job)
                return True
            line.failed_at_release = session.releases
        rule, found = self._find_victims(line, request)
        if found is None:
            return False
        self._interrupt(line, request, rule, found)
        return True

    def _find_victims(self, line: Line, request: Request) -> tuple[Rule, Found | None]:
        """Look for moves (where they are on), then for borrowed, then for lesser work."""
        session = self.session
        if session.policy.consolidation:
            packing = find_moves(session, request)
            if packing is not None:
                return Rule.CONSOLIDATE, Found(chosen=[], spared=[], packing=packing)
        if not self._may_take(line) or self._is_lost(line) or self._waits_for_vacated(line):
            return Rule.PREEMPT, None
        if reclaim.is_entitled(request):
            self.searchers[line] = None
            found = reclaim.find_victims(session, request)
            if found is not None:
                return Rule.RECLAIM, found
        if not self._has_lesser_work(line) or self._is_blocked(line):
            return Rule.PREEMPT, None
        found, mark = preempt.find_victims(session, request)
        if mark is None:
            self.searchers[line] = None
        else:
            self.marks[line] = mark
        return Rule.PREEMPT, found

    def _is_blocked(self, line: Line) -> bool:
        """Test whether preemption for ``line`` is known to fail, as nothing relevant changed since."""
        mark = self.marks.get(line)
        if mark is None or self.session.policy.consolidation or not len(line):
            return False
        mark = preempt.renewed(self.session, line.head(), mark)
        if mark is None:
            del self.marks[line]
            return False
        self.marks[line] = mark
        return True

    def _may_take(self, line: Line) -> bool:
        """Test whether some rule could interrupt others for ``line``, whoever they are."""
        return self.session.policy.consolidation or (
            not line.is_lost and (_is_entitled(line) or self._has_lesser_work(line))
        )

    def _is_lost(self, line: Line) -> bool:
        """Test, by a bound that holds for the whole cycle, whether no victims could help ``line``."""
        if self.session.policy.consolidation:
            return False
        if not line.is_lost:
            firm = self.session.placer(self.session.firm_books()).slots(line.shape)
            line.is_lost = firm.total < line.count or not quota.passes_guarantees(
                project=line.project, amount=line.amount, preemptible=line.preemptible
            )
        return line.is_lost

    def _has_lesser_work(self, line: Line) -> bool:
        """Test whether the project runs preemptible work of lower priority."""
        candidates = self.session.roster.candidates(line.project)
        return bool(candidates) and candidates[0].order[0] < line.priority

    def _interrupt(self, line: Line, request: Request, rule: Rule, found: Found) -> None:
        """Carry out an eviction: victims leave, the request starts or has its places kept."""
        session = self.session
        moves = () if found.packing is None else found.packing.moves
        self.recorder.evict(request, rule, found)
        session.split_books()
        wait = not session.at_once and (
            bool(moves) or any(held.id >= 0 for taken in found.chosen for held in taken.helds)
        )
        for taken in found.chosen:
            self._remove_victim(taken)
        for move in moves:
            session.relocate(move.job, move.held, move.place)
            self.order.touch(move.job.project)
        self.recorder.serve(request, found.packing, wait=wait)
        self._leave(line, session.job_of(request.workload))
        self._wake_after_release()

    def _wake_after_release(self) -> None:
        """Let those try again whose outcome what came free, or whoever left, could change."""
        moves = self.session.policy.consolidation
        for line in list(self.waiting) if moves else self._concerned():
            has_places = moves or self._has_places(line)
            if line.aside and (moves or self._is_worth_trying(line, has_places=has_places)):
                self._wake(line)

    def _concerned(self) -> list[Line]:
        """Return the lines whose outcome may be another since the last release.

        Those for whose shape there is a place as there was none before; those of projects that run
        something on a node that changed, or lost or started something, or may hold more by the limit
        of their department; those that looked for victims and failed, but for the ones marked as
        needing devices that none of these nodes gives.
        """
        session = self.session
        start, later = session.placer(session.start), session.placer(session.later)
        changed = {*session.later.log[self.woken_at :]}
        self.woken_at = len(session.later.log)
        near = {job.project.id for position in changed for job in session.roster.jobs_on(position)}
        near |= self.moved
        near |= self._siblings_of_moved()
        self.moved.clear()
        lines: dict[Line, None] = dict.fromkeys(self.searchers)
        for (shape, count), group in self.waiting.groups.items():
            if start.slots(shape).total >= count:
                if (shape, count) in self.swept:
                    self.swept.discard((shape, count))
                    lines.update(dict.fromkeys(group))
            else:
                by_node = later.slots(shape).by_node
                if any(by_node.get(position) for position in changed):
                    lines.update(dict.fromkeys(each for each in group if each in self.marks))
        for project_id in sorted(near):
            lines.update(dict.fromkeys(self.waiting.lines_of[project_id]))
        return list(lines)

    def _siblings_of_moved(self) -> set[int]:
        """Return the projects of bounded departments of which something started or left."""
        session = self.session
        departments = {session.projects[each].department for each in self.moved}
        return {
            project.id
            for department in departments
            if department is not None and department.is_bounded
            for project in session.projects_of[department.id]
        }

    def _is_worth_trying(self, line: Line, *, has_places: bool) -> bool:
        if has_places and _passes_checks(line):
            return True
        if not self._may_take(line) or self._waits_for_vacated(line):
            return False
        return _is_entitled(line) or not self._is_blocked(line)

    def _waits_for_vacated(self, line: Line) -> bool:
        """Test whether ``line`` will fit once victims of others are gone: it needs none of its own."""
        if line.shape.gpu_memory_mib or not _passes_checks(line):
            return False
        later = self.session.placer(self.session.later)
        return later.slots(line.shape).total >= line.count

    def _wake(self, line: Line) -> None:
        line.aside = False
        self.order.touch(line.project)

    def _remove_victim(self, taken: Taken) -> None:
        job = taken.candidate.job
        self.moved.add(job.project.id)
        self.order.touch(job.project)
        self.waiting.leave(job.workload)
        self.session.remove(job, taken.helds)
        job.victim_in_pass = self.pass_number
        if job not in self.returning:
            self.returning.append(job)

    def _leave(self, line: Line, job: Job) -> None:
        """Take the started request out of its line, and put the next one of its workload in."""
        line.take_head()
        self.waiting.forget(job.workload)
        if job not in self.returning:
            self.waiting.enter(job.workload)
        self.moved.add(line.project.id)
        self.order.touch(line.project, protected=not line.preemptible)
        self._wake_reclaimers(line)

    def _wake_reclaimers(self, started: Line) -> None:
        """Let entitled requests try again: what just started may have made its queue a borrower."""
        if started.project.alloc_mgpu <= started.project.bar_mgpu:
            return
        for line in self.searchers:
            is_other = line.aside and line.project is not started.project
            if is_other and not line.is_lost and _is_entitled(line):
                self._wake(line)

    def _evict_broken_gangs(self, dropped: Sequence[int]) -> None:
        """Stop what is left of gangs that lost replicas below their minimum, whole."""
        session = self.session
        suspects = {*session.broken, *dropped}
        for job in sorted((session.jobs[each] for each in suspects), key=_by_age):
            if job.is_broken:
                self.recorder.lost(job)
                session.lose(job)
                self._renew_request(job)

    def _renew_request(self, job: Job) -> None:
        """Let ``job``'s waiting request be the one that it has by now."""
        if not self.session.facts.is_paused(job.workload, self.session.now_us):
            self.waiting.leave(job.workload)
            self.waiting.enter(job.workload)


def _by_age(job: Job) -> tuple[int, str, int]:
    workload = job.workload
    return (workload.submitted_at_us, workload.name, workload.id)


def _is_entitled(line: Line) -> bool:
    mgpu = line.amount.mgpu
    return mgpu > 0 and line.project.alloc_mgpu + mgpu <= line.project.bar_mgpu


def _passes_checks(line: Line) -> bool:
    return quota.passes(project=line.project, amount=line.amount, preemptible=line.preemptible)


def _raise_bars(session: Session, departments: dict[int, int], projects: dict[int, int]) -> None:
    """Let reclaim measure against the fair share where that is more than the quota."""
    for queues, shares in ((session.departments, departments), (session.projects, projects)):
        for queue_id, queue in queues.items():
            session.set_bar(queue, max(queue.quota.quota_mgpu, shares[queue_id]))
