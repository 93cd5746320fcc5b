"""decide(snapshot, policy, now) -> Plan: one cycle, passes until one changes nothing.

``decide`` serves the live cycle: victims hold their devices until they are gone, and places are kept
for the workload that they are vacated for. ``settle`` serves cases, previews and simulation, where
evictions complete at once. Both run the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core import nomination, preempt, reclaim
from scheduler.core.allocate import find_places
from scheduler.core.choice import Found
from scheduler.core.consolidate import find_moves
from scheduler.core.jobs import Job
from scheduler.core.load import open_session
from scheduler.core.plan import Holds, Plan
from scheduler.core.prospects import Prospects
from scheduler.core.record import Recorder
from scheduler.core.reservation import Reservations
from scheduler.core.session import Session
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
        self.order = state.order
        self.prospects = Prospects(session, self.waiting)

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
        self.order.begin_cycle()
        if not session.policy.consolidation:
            self.prospects.set_hopeless_aside()
        while self._run_pass():
            self._readmit_victims()
        return Plan(
            decisions=self.recorder.decisions(),
            holds=Holds(
                self.state.explained.groups(self.reservations, self.state.shortages_at_end())
            ),
            fair_share_projects=projects,
            fair_share_departments=departments,
            dropped_nominations=dropped,
            starving_ids=self.reservations.starving_ids(),
            reservations=self.reservations.nodes(),
        )

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
        for other in self.prospects.like_failures(line):
            self.order.set_aside(other)

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
        """Look for moves (where they are on), then for borrowed, then for lesser work.

        Under a freeze for none: nobody is interrupted for another's sake.
        """
        session = self.session
        if session.policy.is_frozen(session.now_us):
            return Rule.PREEMPT, None
        if session.policy.consolidation:
            packing = find_moves(session, request)
            if packing is not None:
                return Rule.CONSOLIDATE, Found(chosen=[], spared=[], packing=packing)
        prospects = self.prospects
        if prospects.is_vain(line):
            return Rule.PREEMPT, None
        if reclaim.is_entitled(request):
            prospects.searchers[line] = None
            found = reclaim.find_victims(session, request)
            if found is not None:
                return Rule.RECLAIM, found
        if not prospects.has_lesser_work(line) or prospects.is_blocked(line):
            return Rule.PREEMPT, None
        found, is_short = preempt.find_victims(session, request)
        prospects.note_search(line, is_short=is_short)
        return Rule.PREEMPT, found

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
        for other in self.prospects.woken_by_release():
            self.order.wake(other)

    def _remove_victim(self, taken: Taken) -> None:
        job = taken.candidate.job
        self.prospects.moved.add(job.project.id)
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
        self.prospects.moved.add(line.project.id)
        self.order.touch(line.project, protected=not line.preemptible)
        for other in self.prospects.woken_by_start(line):
            self.order.wake(other)

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


def _raise_bars(session: Session, departments: dict[int, int], projects: dict[int, int]) -> None:
    """Let reclaim measure against the fair share where that is more than the quota."""
    for queues, shares in ((session.departments, departments), (session.projects, projects)):
        for queue_id, queue in queues.items():
            session.set_bar(queue, max(queue.quota.quota_mgpu, shares[queue_id]))
