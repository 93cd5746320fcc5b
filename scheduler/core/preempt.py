"""Preemption, inside one project: lesser work gives way to more urgent work of the same project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from scheduler.core.books import NodeBook, changed_since
from scheduler.core.choice import Found, Search
from scheduler.core.jobs import Candidate
from scheduler.core.roster import Gain, Lesser
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.units import WHOLE_GPU_MGPU
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


@dataclass(frozen=True, slots=True)
class Mark:
    """What was known when not even all lesser work of the project made room: how many replicas would
    have fitted without it, the later books' log, and how far it had come.
    """

    reach: int
    log: list[int]
    seen: int


def find_victims(session: Session, request: Request) -> tuple[Found | None, Mark | None]:
    """Return the victims inside the project that let ``request`` start; or a mark, where even all of
    its lesser work leaves too few devices.
    """
    if not session.policy.consolidation:
        reach = reach_of(session, request)
        if reach < request.count:
            return None, _mark(session, reach)
    search = Search(session, request, PreemptScope(session, request))
    found = search.find()
    if found is None and search.reach is not None and search.reach < request.count:
        return None, _mark(session, search.reach)
    return found, None


def reaches(session: Session, request: Request) -> bool:
    """Test whether it would fit if all lesser work of the project were gone."""
    if session.placer(session.later).slots(request.shape).total >= request.count:
        return True
    return reach_of(session, request) >= request.count


def reach_of(session: Session, request: Request) -> int:
    """Return how many replicas would fit if all lesser work of the project were gone."""
    slots = session.placer(session.later).slots(request.shape)
    lesser = session.roster.lesser(request.project, request.workload.priority)
    return slots.total + _gain_of(session, request, lesser, slots.by_node)


def _gain_of(session: Session, request: Request, lesser: Lesser, by_node: Mapping[int, int]) -> int:
    """Return how many more replicas would fit without ``lesser``, found once for each state."""
    shape, later = request.shape, session.later
    known = lesser.gains.get(shape)
    if (
        known is not None
        and known.log is later.log
        and lesser.mgpu_on.keys().isdisjoint(later.log[known.seen :])
    ):
        return known.replicas
    gain = 0
    for position, amounts in lesser.mgpu_on.items():
        before = by_node.get(position)
        if before is not None and _may_gain(later.nodes[position], amounts, shape):
            gain += _reach_on(session, request, position) - before
    lesser.gains[shape] = Gain(later.log, len(later.log), gain)
    return gain


def _may_gain(node: NodeBook, lesser: Mapping[int, int], shape: Shape) -> bool:
    """Test, quickly, whether another replica might fit once devices have ``lesser`` mGPU more free."""
    need = shape.request_mgpu
    if not shape.devices or shape.gpu_memory_mib:
        return True
    free = node.free_mgpu
    lacking = shape.devices - len(lesser)
    if lacking > 0 and shape.is_whole and free.count(WHOLE_GPU_MGPU) < lacking:
        return False
    able = 0
    for at, mgpu in lesser.items():
        able += free[at] + mgpu >= need
    if not able or shape.devices == 1:
        return able > 0
    others = sum([mgpu >= need for at, mgpu in enumerate(free) if at not in lesser])
    return able + others >= shape.devices


def renewed(session: Session, request: Request, mark: Mark) -> Mark | None:
    """Return ``mark`` brought up to date by the nodes that changed since; None where there may be room."""
    log = session.later.log
    if mark.log is log and mark.seen == len(log):
        return mark
    reach = mark.reach
    by_node = session.placer(session.firm_books()).slots(request.shape).by_node
    for position in changed_since(mark.log, mark.seen, log):
        if by_node.get(position):
            reach += _reach_on(session, request, position)
            if reach >= request.count:
                return None
    return _mark(session, reach)


def _mark(session: Session, reach: int) -> Mark:
    return Mark(reach, session.later.log, len(session.later.log))


def _reach_on(session: Session, request: Request, position: int) -> int:
    """Return how many replicas would fit on one node without the project's lesser work."""
    node = session.later.nodes[position]
    out = [
        (job.shape, held.place.devices)
        for job in session.roster.by_project_on(position).get(request.project.id, ())
        if job.workload.priority < request.workload.priority
        if session.roster.is_interruptible(job)
        for held in job.held
        if held.place.node == position
    ]
    for shape, devices in out:
        node.move(shape, devices, 1)
    slots = node.slots(request.shape)
    for shape, devices in out:
        node.move(shape, devices, -1)
    return slots
