"""Reclaim, between queues: borrowed work gives way to a project that asks for its guarantee."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.choice import Found, Search
from scheduler.core.session import Queue, Session
from scheduler.core.victims import (
    Candidate,
    Chosen,
    Taken,
    candidate_of,
    is_interruptible,
    row_of,
)
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
        self._own = request.project.department
        assert self._own is not None
        #: How far the own department is above its bar with the request; positive: nothing may be
        #: taken from other departments before that much was taken inside.
        self._over_mgpu = self._own.alloc_mgpu + request.amount.mgpu - self._own.bar_mgpu
        #: What each queue holds above its bar before anything is taken. Trials change the totals.
        self._surplus = {
            queue: queue.alloc_mgpu - queue.bar_mgpu
            for queues in (session.departments, session.projects)
            for queue in queues.values()
        }

    @property
    def needs_company(self) -> bool:
        """Test whether victims inside the department may be needed to reach outside it."""
        return self._over_mgpu > 0

    def ranked(self) -> Iterator[Candidate]:
        """Yield borrowed work, most willing first."""
        session = self._session
        found = [
            candidate_of(session, job, row)
            for project in session.projects.values()
            if self._is_source(project)
            for row in (row_of(project),)
            for job in session.running[project.id].values()
            if is_interruptible(job, session.policy, session.now_us)
        ]
        return iter(sorted(found, key=lambda candidate: candidate.key))

    def _is_source(self, project: Queue) -> bool:
        if project is self._request.project or self._surplus[project] <= 0:
            return False
        department = project.department
        assert department is not None
        return department is self._own or self._surplus[department] > 0

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

    def allows_more(self, chosen: Chosen, taken: Taken, *, straddling: bool) -> bool:
        """Test whether ``taken`` may come after ``chosen``: its queues are still above their bars."""
        project = taken.candidate.job.project
        if project.department is not self._own and self._over_mgpu > 0:
            inside = sum(
                each.mgpu for each in chosen if each.candidate.job.project.department is self._own
            )
            if self._over_mgpu > inside:
                return False
        for queue in self._measured(project):
            before = sum(
                each.mgpu for each in chosen if queue in self._measured(each.candidate.job.project)
            )
            left = self._surplus[queue] - before
            if straddling:
                pieces = taken.pieces()
                left -= sum(pieces) - max(pieces)
                if left <= 0:
                    return False
            elif left < taken.mgpu:
                return False
        return True

    def _measured(self, project: Queue) -> tuple[Queue, ...]:
        """Return the queues whose surplus a victim of ``project`` counts against."""
        department = project.department
        assert department is not None
        return (project,) if department is self._own else (project, department)


def find_victims(session: Session, request: Request) -> Found | None:
    """Return the borrowed work that must give way to ``request``, with what was spared."""
    return Search(session, request, ReclaimScope(session, request)).find()
