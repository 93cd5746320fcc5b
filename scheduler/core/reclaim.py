"""Reclaim, between queues: borrowed work gives way to a project that asks for its guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge

from scheduler.core.choice import Found, Search
from scheduler.core.jobs import Candidate, Row, Willingness
from scheduler.core.queues import Queue
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.victims import Chosen, Taken, row_of
from scheduler.core.waiting import Request


def is_entitled(request: Request) -> bool:
    """Test whether ``request`` stays within its project's guarantee, all amounts counted.

    This is the whole trigger: a request beyond the guarantee borrows, and for borrowing nobody else
    is interrupted. One without GPU reclaims nothing.
    """
    request_mgpu = request.amount.mgpu
    project = request.project
    return request_mgpu > 0 and project.alloc_mgpu + request_mgpu <= project.bar_mgpu


class ReclaimScope:
    """Borrowed preemptible work of other projects, as far as their queues are above their bars."""

    may_straddle = True

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request
        own = request.project.department
        assert own is not None
        self._own = own
        #: How far the own department is above its bar with the request; positive: nothing may be
        #: taken from other departments before that much was taken inside.
        self._over_mgpu = own.alloc_mgpu + request.amount.mgpu - own.bar_mgpu
        self._clearable = session.clearable(own)
        self._sources = [each for each in self._clearable.sources() if each is not request.project]
        self._rows = {each: row_of(each) for each in self._sources}
        #: What each queue holds above its bar before anything is taken. Trials change the totals.
        self._surplus: dict[Queue, int] = {}
        for project in self._sources:
            for queue in measured(project, own):
                self._surplus[queue] = queue.alloc_mgpu - queue.bar_mgpu

    @property
    def needs_company(self) -> bool:
        """Test whether victims inside the department may be needed to reach outside it."""
        return self._over_mgpu > 0

    @property
    def has_further(self) -> bool:
        """Test whether some candidate may have further replicas."""
        return any(self._session.roster.has_elastic(project) for project in self._sources)

    @property
    def size(self) -> int:
        """Return how many candidates there are."""
        return sum(len(self._session.roster.candidates(project)) for project in self._sources)

    def able_nodes(self) -> Mapping[int, int]:
        """Return, by node, how many replicas would fit if all candidates were gone."""
        return self._clearable.by_node(self._request.shape)

    def on_node(self, position: int) -> list[Candidate]:
        """Return the candidates with replicas on one node, most willing first."""
        found = []
        rows = self._rows
        for jobs in self._session.roster.by_project_on(position).values():
            for job in jobs:
                row = rows.get(job.project)
                if row is None:
                    break
                if job.candidate is not None:
                    job.candidate.row = row
                    found.append(job.candidate)
        return sorted(found, key=_willingness)

    def ranked(self) -> Iterator[Candidate]:
        """Yield borrowed work, most willing first. The session may not change meanwhile."""
        lists = []
        for project in self._sources:
            candidates = self._session.roster.candidates(project)
            if candidates:
                lists.append(_in_row(candidates, self._rows[project]))
        if len(lists) == 1:
            return lists[0]
        return merge(*lists, key=_willingness)

    def allows(self, chosen: Chosen, *, straddling: bool) -> bool:
        """Test whether some order takes each victim while its queues are above their bars.

        The best order takes the largest piece last, so all but that must fit into the surplus. Without
        straddlers all of it must.
        """
        totals: dict[Queue, int] = {}
        largest: dict[Queue, int] = {}
        inside = 0
        crosses = False
        for taken in chosen:
            project = taken.candidate.job.project
            for queue in self._measured(project):
                for piece in taken.pieces():
                    totals[queue] = totals.get(queue, 0) + piece
                    largest[queue] = max(largest.get(queue, 0), piece)
            if project.department is self._own:
                inside += taken.mgpu
            else:
                crosses = True
        if crosses and self._over_mgpu > inside:
            return False
        if straddling:
            return all(totals[queue] - largest[queue] < self._surplus[queue] for queue in totals)
        return all(totals[queue] <= self._surplus[queue] for queue in totals)

    def tally(self) -> ReclaimTally:
        """Return a count of what is taken, one after the other."""
        return ReclaimTally(self._own, self._over_mgpu, dict(self._surplus))

    def _measured(self, project: Queue) -> tuple[Queue, ...]:
        return measured(project, self._own)


class ReclaimTally:
    """What is taken so far, and what each queue still holds above its bar."""

    def __init__(self, own: Queue, over_mgpu: int, surplus: dict[Queue, int]) -> None:
        self._own = own
        self._over_mgpu = over_mgpu
        self._surplus = surplus
        self._crossing = 0

    def admits(self, taken: Taken, *, straddling: bool) -> bool:
        """Test whether ``taken`` may be taken next: its queues are still above their bars."""
        project = taken.candidate.job.project
        if project.department is not self._own and self._over_mgpu > 0:
            return False
        pieces = taken.pieces()
        total = sum(pieces)
        before_last = total - max(pieces)
        for queue in measured(project, self._own):
            left = self._surplus[queue]
            if left <= 0 or (left < total and not (straddling and before_last < left)):
                return False
        return True

    def count(self, taken: Taken, *, sign: int) -> None:
        """Count ``taken`` in (+1) or out (-1)."""
        project = taken.candidate.job.project
        for queue in measured(project, self._own):
            self._surplus[queue] -= sign * taken.mgpu
        if project.department is self._own:
            self._over_mgpu -= sign * taken.mgpu
        else:
            self._crossing += sign

    @property
    def is_allowed(self) -> bool:
        """Test whether the department may reach outside itself, if it does."""
        return not self._crossing or self._over_mgpu <= 0


def measured(project: Queue, own: Queue) -> tuple[Queue, ...]:
    """Return the queues whose surplus a victim of ``project`` counts against, for one of ``own``."""
    department = project.department
    assert department is not None
    return (project,) if department is own else (project, department)


def _in_row(candidates: list[Candidate], row: Row) -> Iterator[Candidate]:
    for candidate in candidates:
        candidate.row = row
        yield candidate


def _willingness(candidate: Candidate) -> tuple[int, Row, Willingness]:
    return candidate.key


def find_victims(session: Session, request: Request) -> Found | None:
    """Return the borrowed work that must give way to ``request``, with what was spared."""
    if not session.policy.consolidation and not could_clear(
        session, request.project, request.shape, request.count
    ):
        return None
    return Search(session, request, ReclaimScope(session, request)).find()


def could_clear(session: Session, project: Queue, shape: Shape, count: int) -> bool:
    """Test whether ``project`` would have devices if all that it may take from others were gone."""
    department = project.department
    assert department is not None
    return session.clearable(department).takes(shape, count)
