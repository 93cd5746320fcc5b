"""Preemption, inside one project: lesser work gives way to more urgent work of the same project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from scheduler.core.choice import Found, Search
from scheduler.core.session import Candidate, Session
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
        return self._session.has_elastic(self._request.project)

    @property
    def size(self) -> int:
        """Return how many candidates there may be."""
        return len(self._session.candidates(self._request.project))

    def on_node(self, position: int) -> list[Candidate]:
        """Return the candidates with replicas on one node, most willing first."""
        return [
            candidate
            for candidate in self.ranked()
            if any(held.place.node == position for held in candidate.job.held)
        ]

    def ranked(self) -> Iterator[Candidate]:
        """Yield the project's lesser work, most willing first."""
        project = self._request.project
        row = row_of(project)
        lesser = takewhile(
            lambda candidate: candidate.order[0] < self._request.workload.priority,
            list(self._session.candidates(project)),
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


@dataclass(frozen=True, slots=True)
class Mark:
    """What was known when not even all lesser work of the project made room: how many replicas would
    have fitted without it, and how far the later books' log had come.
    """

    reach: int
    seen: int


def find_victims(session: Session, request: Request) -> tuple[Found | None, Mark | None]:
    """Return the victims inside the project that let ``request`` start; or a mark, where even all of
    its lesser work leaves too few devices.
    """
    search = Search(session, request, PreemptScope(session, request))
    found = search.find()
    if found is None and search.reach is not None and search.reach < request.count:
        return None, Mark(search.reach, len(session.later.log))
    return found, None


def renewed(session: Session, request: Request, mark: Mark) -> Mark | None:
    """Return ``mark`` brought up to date by the nodes that changed since; None where there may be room."""
    log = session.later.log
    if mark.seen == len(log):
        return mark
    reach = mark.reach
    by_node = session.placer(session.firm_books()).slots(request.shape).by_node
    for position in {*log[mark.seen :]}:
        if by_node.get(position):
            reach += _reach_on(session, request, position)
            if reach >= request.count:
                return None
    return Mark(reach, len(log))


def _reach_on(session: Session, request: Request, position: int) -> int:
    """Return how many replicas would fit on one node without the project's lesser work."""
    node = session.later.nodes[position]
    out = [
        (job.shape, held.place.devices)
        for job in session.jobs_on(position)
        if job.project is request.project and job.workload.priority < request.workload.priority
        if session.is_interruptible(job)
        for held in job.held
        if held.place.node == position
    ]
    for shape, devices in out:
        node.move(shape, devices, 1)
    slots = node.slots(request.shape)
    for shape, devices in out:
        node.move(shape, devices, -1)
    return slots
