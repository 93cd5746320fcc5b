"""State kept from cycle to cycle: brought forward by what changed, instead of built from all facts.

``Kept.decide`` returns the plan that ``decide`` would return on the same facts. Only the facts are
carried over (totals, books, lines, indexes over them); what one cycle finds out about its requests it
finds out anew. Whatever the last cycle decided is taken back first: only the facts say what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from scheduler.core.cycle import run_on
from scheduler.core.load import bring_in, open_session, take_out, vacated_for
from scheduler.core.plan import Plan
from scheduler.core.queues import Queue
from scheduler.core.session import Session
from scheduler.core.snapshot import Department, Node, Policy, Project, Snapshot, Workload
from scheduler.core.state import State, state_of

#: The state is built anew once this many changes of books and queues were noted.
_LOG_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is no longer as it was: workloads that came or are other than before, and ids of those that
    went. ``departments``, ``projects``, ``nodes``: all there are, where one of them changed.
    """

    workloads: Sequence[Workload] = ()
    gone: Sequence[int] = ()
    departments: Sequence[Department] | None = None
    projects: Sequence[Project] | None = None
    nodes: Sequence[Node] | None = None


def differing_parts(plan: Plan, other: Plan) -> list[str]:
    """Return the names of the parts in which two plans differ."""
    return [
        part.name for part in fields(Plan) if getattr(plan, part.name) != getattr(other, part.name)
    ]


def change_between(before: Snapshot, after: Snapshot) -> Change:
    """Return what differs. Workloads that are the same object are not looked into."""
    known = {each.id: each for each in before.workloads}
    changed = []
    for workload in after.workloads:
        old = known.pop(workload.id, None)
        if old is not workload and old != workload:
            changed.append(workload)
    return Change(
        workloads=changed,
        gone=tuple(known),
        departments=None if before.departments == after.departments else after.departments,
        projects=None if before.projects == after.projects else after.projects,
        nodes=None if before.nodes == after.nodes else after.nodes,
    )


class Kept:
    """The state of one node pool, live: victims hold their devices until the facts say they are gone."""

    def __init__(self, snapshot: Snapshot, *, policy: Policy, now_us: int) -> None:
        self.policy = policy
        self._nodes = snapshot.nodes
        self._departments = snapshot.departments
        self._projects = snapshot.projects
        #: How often the state was built from all facts, instead of being brought forward.
        self.builds = 0
        #: A cycle was run since the facts were last brought forward.
        self._decided = False
        self._build(snapshot, now_us)

    @property
    def _session(self) -> Session:
        return self._state.session

    def snapshot(self) -> Snapshot:
        """Return the facts that the state stands for."""
        return Snapshot(
            nodes=self._nodes,
            departments=self._departments,
            projects=self._projects,
            workloads=tuple(self._session.facts.workloads.values()),
        )

    def decide(self) -> Plan:
        """Return one live cycle's decisions on the facts as they were last brought forward."""
        if self._decided:
            self.advance(Change(), now_us=self._session.now_us)
        self._decided = True
        return run_on(self._state)

    def follow(self, snapshot: Snapshot, *, now_us: int) -> None:
        """Bring the state forward to ``snapshot``, at ``now_us``, by what differs."""
        self.advance(change_between(self.snapshot(), snapshot), now_us=now_us)

    def advance(self, change: Change, *, now_us: int) -> None:
        """Bring the state forward to the facts after ``change``, at ``now_us``."""
        if self._must_build(change, now_us):
            self._build(self._after(change), now_us)
            return
        session, waiting = self._session, self._state.waiting
        session.begin_cycle(now_us)
        waiting.begin_cycle()
        self._set_bounds(change)
        before, after = self._altered(change)
        for workload in before:
            waiting.leave(workload)
        take_out(session, before)
        bring_in(session, after)
        session.renew_mix()
        waiting.enter_all(after)
        self._decided = False

    def _altered(self, change: Change) -> tuple[list[Workload], list[Workload]]:
        """Return the workloads to be taken out, as they were, and those to be brought in."""
        session = self._session
        known = session.facts.workloads
        gone = {each for each in change.gone if each in known}
        new = {each.id: each for each in change.workloads}
        stale = gone | session.touched | new.keys()
        ruled = [each for id_ in stale if (each := known.get(id_)) is not None]
        stale |= vacated_for(session, (*ruled, *new.values()))
        session.touched.clear()
        before = [known[each] for each in stale if each in known]
        after = [new.get(each) or known[each] for each in stale if each not in gone]
        return before, after

    def _set_bounds(self, change: Change) -> None:
        rows: tuple[tuple[Mapping[int, Queue], Iterable[Department | Project] | None], ...] = (
            (self._session.departments, change.departments),
            (self._session.projects, change.projects),
        )
        for queues, changed in rows:
            for row in changed or ():
                queue = queues[row.id]
                if queue.quota != row.quota:
                    self._session.set_bounds(queue, row.quota)
                    self._state.shares.queue_changed(queue)
        self._departments = (
            self._departments if change.departments is None else tuple(change.departments)
        )
        self._projects = self._projects if change.projects is None else tuple(change.projects)

    def _must_build(self, change: Change, now_us: int) -> bool:
        """Test whether the state can't be brought forward, or has become too long."""
        return (
            change.nodes is not None
            or now_us < self._session.now_us
            or self._session.log_length > _LOG_LIMIT
            or _names(change.departments) not in (None, _names(self._departments))
            or _names(change.projects) not in (None, _names(self._projects))
        )

    def _after(self, change: Change) -> Snapshot:
        workloads = dict(self._session.facts.workloads)
        for workload_id in change.gone:
            workloads.pop(workload_id, None)
        workloads.update((each.id, each) for each in change.workloads)
        return Snapshot(
            nodes=self._nodes if change.nodes is None else tuple(change.nodes),
            departments=self._departments
            if change.departments is None
            else tuple(change.departments),
            projects=self._projects if change.projects is None else tuple(change.projects),
            workloads=tuple(workloads.values()),
        )

    def _build(self, snapshot: Snapshot, now_us: int) -> None:
        self._nodes, self._departments = snapshot.nodes, snapshot.departments
        self._projects = snapshot.projects
        session = open_session(snapshot, policy=self.policy, now_us=now_us)
        self._state: State = state_of(session)
        self._decided = False
        self.builds += 1


def _names(rows: Sequence[Department | Project] | None) -> list[tuple[int, str, int]] | None:
    """Return what of queues can't be changed in a kept state: which there are, and of which department."""
    if rows is None:
        return None
    return sorted((row.id, row.name, getattr(row, "department_id", 0)) for row in rows)
