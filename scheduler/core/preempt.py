"""Preemption, inside one project: lesser work gives way to more urgent work of the same project."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.choice import Found, Search
from scheduler.core.session import Session
from scheduler.core.victims import (
    Candidate,
    Chosen,
    Taken,
    candidate_of,
    is_interruptible,
    row_of,
)
from scheduler.core.waiting import Request


class PreemptScope:
    """Running preemptible work of the same project with strictly lower priority."""

    may_straddle = False
    needs_company = False

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request

    def ranked(self) -> Iterator[Candidate]:
        """Yield the project's lesser work, most willing first."""
        request, session = self._request, self._session
        row = row_of(request.project)
        found = [
            candidate_of(session, job, row)
            for job in session.running[request.project.id].values()
            if job.workload.priority < request.workload.priority
            and is_interruptible(job, session.policy, session.now_us)
        ]
        return iter(sorted(found, key=lambda candidate: candidate.key))

    def allows(self, chosen: Chosen, *, straddling: bool) -> bool:
        """Test nothing more: inside a project only the order of priority counts."""
        return True

    def allows_more(self, chosen: Chosen, taken: Taken, *, straddling: bool) -> bool:
        """Test nothing more."""
        return True


def find_victims(session: Session, request: Request) -> Found | None:
    """Return the victims inside the project that let ``request`` start, with those spared."""
    return Search(session, request, PreemptScope(session, request)).find()
