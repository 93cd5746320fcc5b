"""Preemption, inside one project: lesser work gives way to more urgent work of the same project."""

from __future__ import annotations

from collections.abc import Iterator
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


def find_victims(session: Session, request: Request) -> Found | None:
    """Return the victims inside the project that let ``request`` start, with those spared."""
    return Search(session, request, PreemptScope(session, request)).find()
