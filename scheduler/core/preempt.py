"""Preemption, inside one project: lesser work gives way to more urgent work of the same project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from scheduler.core.choice import Found, Search
from scheduler.core.jobs import Candidate
from scheduler.core.session import Session
from scheduler.core.victims import Chosen, Taken, row_of
from scheduler.core.waiting import Request


class PreemptScope:
    """Running preemptible work of the same project with strictly lower priority."""

    may_straddle = False
    needs_company = False

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request

    @property
    def has_further(self) -> bool:
        """Test whether some candidate may have further replicas."""
        return self._session.roster.has_elastic(self._request.project)

    @property
    def size(self) -> int:
        """Return how many candidates there may be."""
        return len(self._session.roster.candidates(self._request.project))

    def able_nodes(self) -> Mapping[int, int]:
        """Return, by node, a bound on how many replicas would fit if all candidates were gone."""
        session = self._session
        return session.placer(session.firm_books()).slots(self._request.shape).by_node

    def on_node(self, position: int) -> list[Candidate]:
        """Return the candidates with replicas on one node, most willing first."""
        project = self._request.project
        row = row_of(project)
        found = []
        for job in self._session.roster.by_project_on(position).get(project.id, ()):
            candidate = job.candidate
            if candidate is None:
                continue
            if candidate.order[0] >= self._request.workload.priority:
                continue
            if any(held.place.node == position for held in job.held):
                candidate.row = row
                found.append(candidate)
        return sorted(found, key=lambda candidate: candidate.order)

    def ranked(self) -> Iterator[Candidate]:
        """Yield the project's lesser work, most willing first."""
        project = self._request.project
        row = row_of(project)
        lesser = takewhile(
            lambda candidate: candidate.order[0] < self._request.workload.priority,
            list(self._session.roster.candidates(project)),
        )
        for candidate in lesser:
            candidate.row = row
            yield candidate

    def allows(self, chosen: Chosen, *, straddling: bool) -> bool:
        """Test nothing more: inside a project only the order of priority counts."""
        return True

    def tally(self) -> PreemptTally:
        """Return a count of what is taken, one after the other."""
        return PreemptTally()


class PreemptTally:
    """Takes anything: the candidates are all there is to the rule."""

    def admits(self, taken: Taken, *, straddling: bool) -> bool:
        """Test whether ``taken`` may be taken next."""
        return True

    def count(self, taken: Taken, *, sign: int) -> None:
        """Count ``taken`` in (+1) or out (-1)."""

    @property
    def is_allowed(self) -> bool:
        """Test whether what is counted may be taken."""
        return True


def find_victims(session: Session, request: Request) -> tuple[Found | None, bool]:
    """Return the victims inside the project that let ``request`` start; and whether even all of its
    lesser work leaves too few devices.
    """
    if not session.policy.consolidation and not reaches(session, request):
        return None, True
    return Search(session, request, PreemptScope(session, request)).find(), False


def reaches(session: Session, request: Request) -> bool:
    """Test whether the devices would be enough if all lesser work of the project were gone."""
    shape, later = request.shape, session.later
    slots = session.placer(later).slots(shape)
    if slots.total >= request.count:
        return True
    more = session.lesser.more(
        request.project, request.workload.priority, shape, later, slots.by_node
    )
    return slots.total + more >= request.count
