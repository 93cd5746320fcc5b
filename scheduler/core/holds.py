"""Why each waiting workload waits: once for each line, told for every workload in it, and kept from
cycle to cycle where nothing changed that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from scheduler.core import quota
from scheduler.core.lacks import Shortages
from scheduler.core.placement import Placer
from scheduler.core.plan import Hold, HoldGroup
from scheduler.core.queues import Queue
from scheduler.core.quota import Refusal
from scheduler.core.reservation import Reservations
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Reason
from scheduler.core.waiting import Line, Waiting, next_request


class Explained:
    """Why everything waits. What was found of a project is kept until it or its department changes."""

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._known: dict[int, _OfProject] = {}

    def groups(self, reservations: Reservations, shortages: Shortages) -> Iterator[HoldGroup]:
        """Yield a reason for everything that waits, by the state at the end of the cycle."""
        session = self._session
        reasons = _Reasons(session, reservations, shortages)
        for department_id, projects in session.projects_of.items():
            above = _bounds_of(session.departments[department_id], projects)
            for project in projects:
                stamp = (project.line_changes, project.quota, project.totals(), above)
                known = self._known.get(project.id)
                if known is None or known.stamp != stamp:
                    known = self._known[project.id] = self._look_at(project, stamp)
                yield from known.refused
                for line, never in known.short:
                    yield HoldGroup(reasons.find(line, never=never), line.waiting_ids())
                for line, never in known.by_card:
                    hold = _refused_by_card(session, line, never=never)
                    yield HoldGroup(hold or reasons.find(line, never=never), line.waiting_ids())
        for hold in _pausing(session):
            yield HoldGroup(hold, (hold.workload_id,))

    def _look_at(self, project: Queue, stamp: tuple[object, ...]) -> _OfProject:
        found = _OfProject(stamp)
        for line in self._waiting.lines_of[project.id]:
            if line.first == len(line.entries):
                continue
            never = _is_hopeless(self._session, line)
            refusal = quota.find_refusal(
                project=project, amount=line.amount, preemptible=line.preemptible
            )
            if refusal is not None:
                hold = _refused(refusal, line.first_id, never=never)
                if _is_within_guarantee(refusal, project, line):
                    promised = _promised_mgpu(self._session.projects_of[refusal.queue.id])
                    if promised > refusal.bound:
                        hold = replace(hold, promised=promised)
                found.refused.append(HoldGroup(hold, line.waiting_ids()))
            elif line.shape.gpu_memory_mib:
                found.by_card.append((line, never))
            else:
                found.short.append((line, never))
        return found


@dataclass(slots=True)
class _OfProject:
    """What was found of one project, and of which state."""

    stamp: tuple[object, ...]
    #: Those that check 1 or 2 refuses.
    refused: list[HoldGroup] = field(default_factory=list)
    #: Those that lack devices, with whether they could never run.
    short: list[tuple[Line, bool]] = field(default_factory=list)
    #: Of those, the ones that count by the card on which they would land.
    by_card: list[tuple[Line, bool]] = field(default_factory=list)


def _bounds_of(department: Queue, projects: Sequence[Queue]) -> tuple[object, ...]:
    """Return what checks 1 and 2 compare with at a department, and what it promised its projects."""
    if department.is_bounded:
        return (department.quota, _promised_mgpu(projects), *department.totals())
    return (
        department.quota,
        department.protected_mgpu,
        department.protected_cpu_milli,
        department.protected_memory_mib,
    )


class _Reasons:
    """Why there are no devices, found once for all that wait for the same: one object for like ones."""

    def __init__(self, session: Session, reservations: Reservations, shortages: Shortages) -> None:
        self._session = session
        self._reservations = reservations
        self._shortages = shortages
        self._found: dict[tuple[Shape, Shape, int, bool], Hold] = {}

    def find(self, line: Line, *, never: bool) -> Hold:
        """Return what ``line``, which passes checks 1 and 2, lacks; it names any workload that does."""
        shape = line.shape
        if self._reservations.exist:
            shape = self._reservations.bar(line.head()).shape
        key = (line.shape, shape, line.count, never)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(line, shape, never=never)
        return found

    def _find(self, line: Line, shape: Shape, *, never: bool) -> Hold:
        """Return why there are no devices for ``line``, which may use those of ``shape`` only."""
        session = self._session
        start, now = session.placer(session.start), session.placer(session.now)
        if shape is not line.shape and _fits(start, line.shape, line.count):
            return _kept(Reason.RESERVED, line, self._reservations.owner_of(line.shape))
        if session.is_parted and _fits(now, shape, line.count):
            return _kept(Reason.NOMINATED, line, _nominee_on(session, shape))
        shortage = self._shortages.find(line.shape, line.count)
        return Hold(
            workload_id=line.first_id,
            reason=shortage.reason,
            resource=shortage.resource,
            requested=shortage.requested,
            free=shortage.free,
            largest=shortage.largest,
            lacks=shortage.lacks,
            never=never or shortage.reason is Reason.NO_MATCHING_NODE,
        )


def _promised_mgpu(projects: Sequence[Queue]) -> int:
    """Return what ``projects`` are guaranteed in all."""
    return sum([each.quota.quota_mgpu for each in projects])


def _is_within_guarantee(refusal: Refusal, project: Queue, line: Line) -> bool:
    """Test whether ``line`` asks for what its project is guaranteed, and its department's limit refuses."""
    return (
        refusal.queue is project.department
        and refusal.reason is Reason.OVER_LIMIT
        and refusal.resource == "gpu"
        and project.alloc_mgpu + line.amount.mgpu <= project.quota.quota_mgpu < UNLIMITED_MGPU
    )


def _refused(refusal: Refusal, workload_id: int, *, never: bool) -> Hold:
    over_limit = refusal.reason is Reason.OVER_LIMIT
    return Hold(
        workload_id=workload_id,
        reason=refusal.reason,
        level=refusal.queue.level,
        queue_id=refusal.queue.id,
        resource=refusal.resource,
        limit=refusal.bound if over_limit else None,
        quota=None if over_limit else refusal.bound,
        allocated=refusal.have,
        requested=refusal.requested,
        never=never,
    )


def _kept(reason: Reason, line: Line, owner: int | None) -> Hold:
    return Hold(
        workload_id=line.first_id, reason=reason, requested=line.amount.mgpu, kept_for_id=owner
    )


def _refused_by_card(session: Session, line: Line, *, never: bool) -> Hold | None:
    """Return the check that fails on each card that has room, if one does."""
    placer = session.placer(session.start)
    places = placer.place_all(line.shape, line.count, budget_mgpu=None)
    if places is None:
        return None
    placer.give_back(line.shape, places)
    refusal = quota.find_refusal(
        project=line.project,
        amount=line.head().amount_at(sum(place.mgpu for place in places)),
        preemptible=line.preemptible,
    )
    return None if refusal is None else _refused(refusal, line.first_id, never=never)


def _fits(placer: Placer, shape: Shape, count: int) -> bool:
    return placer.slots(shape).total >= count


def _nominee_on(session: Session, shape: Shape) -> int | None:
    """Return the first workload for which places are kept where ``shape`` would fit."""
    slots = session.placer(session.now).slots(shape).by_node
    ids = [
        (job.workload.submitted_at_us, job.workload.id)
        for job in session.keeping.values()
        if any(slots.get(place.node) for place in job.kept)
    ]
    return min(ids)[1] if ids else None


def _is_hopeless(session: Session, line: Line) -> bool:
    """Test whether it could not run even if nothing else did."""
    if quota.never_fits(project=line.project, amount=line.amount, preemptible=line.preemptible):
        return True
    return session.placer(session.empty_books).slots(line.shape).total < line.count


def _pausing(session: Session) -> Iterator[Hold]:
    for workload in session.facts.paused.values():
        kept_back = workload.kept_back
        if kept_back is not None and workload.is_kept_back(session.now_us):
            if next_request(workload, session.jobs.get(workload.id)) is not None:
                yield Hold(
                    workload_id=workload.id,
                    reason=kept_back.reason,
                    level=kept_back.level,
                    queue_id=kept_back.queue_id,
                    next_try_at_us=kept_back.until_us,
                )
            continue
        until_us = workload.backing_off_until_us
        if until_us is not None and until_us > session.now_us:
            yield Hold(workload_id=workload.id, reason=Reason.BACKING_OFF, next_try_at_us=until_us)
