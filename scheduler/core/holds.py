"""Why each waiting workload waits: once for each line, told for every workload in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler.core import quota
from scheduler.core.lacks import Shortages
from scheduler.core.plan import Hold
from scheduler.core.quota import Refusal
from scheduler.core.reservation import Reservations
from scheduler.core.session import Session
from scheduler.core.vocabulary import Reason
from scheduler.core.waiting import Line, Request, Waiting


def explain_waiting(
    session: Session, waiting: Waiting, reservations: Reservations
) -> Iterator[Hold]:
    """Yield a reason for everything that waits, by the state at the end of the cycle."""
    shortages = Shortages(session, session.start)
    for line in waiting:
        if not len(line):
            continue
        finding = _find(session, line, reservations, shortages)
        for workload in line.waiting():
            yield finding.hold(workload.id)
    yield from _backing_off(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A line's reason: what a hold says, but for the workload."""

    reason: Reason
    refusal: Refusal | None = None
    resource: str = "gpu"
    requested: int | None = None
    free: int | None = None
    largest: int | None = None
    lacks: Mapping[str, int] | None = None
    kept_for_id: int | None = None
    never: bool = False

    def hold(self, workload_id: int) -> Hold:
        """Return the hold of one workload of the line."""
        refusal = self.refusal
        if refusal is None:
            return Hold(
                workload_id=workload_id,
                reason=self.reason,
                resource=self.resource,
                requested=self.requested,
                free=self.free,
                largest=self.largest,
                lacks=self.lacks or {},
                kept_for_id=self.kept_for_id,
                never=self.never,
            )
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
            never=self.never,
        )


def _find(
    session: Session, line: Line, reservations: Reservations, shortages: Shortages
) -> _Finding:
    refusal = _refusal_of(session, line)
    never = _is_hopeless(session, line)
    if refusal is not None:
        return _Finding(reason=refusal.reason, refusal=refusal, never=never)
    request = reservations.bar(line.head())
    if request.shape is not line.shape and _fits(session, line.head()):
        owner = reservations.owner_of(line.shape)
        return _kept(Reason.RESERVED, line, owner)
    if session.now is not session.start and _fits_now(session, request):
        return _kept(Reason.NOMINATED, line, _nominee_on(session, request))
    shortage = shortages.find(line.shape, line.count)
    return _Finding(
        reason=shortage.reason,
        resource=shortage.resource,
        requested=shortage.requested,
        free=shortage.free,
        largest=shortage.largest,
        lacks=shortage.lacks,
        never=never or shortage.reason is Reason.NO_MATCHING_NODE,
    )


def _kept(reason: Reason, line: Line, owner: int | None) -> _Finding:
    return _Finding(reason=reason, requested=line.amount.mgpu, kept_for_id=owner)


def _refusal_of(session: Session, line: Line) -> Refusal | None:
    """Return the check that fails on the cheapest card, or on each card that has room."""
    refusal = quota.find_refusal(
        project=line.project, amount=line.amount, preemptible=line.preemptible
    )
    if refusal is not None or not line.shape.gpu_memory_mib:
        return refusal
    placer = session.placer(session.start)
    places = placer.place_all(line.shape, line.count, budget_mgpu=None)
    if places is None:
        return None
    placer.give_back(line.shape, places)
    mgpu = sum(place.mgpu for place in places)
    return quota.find_refusal(
        project=line.project,
        amount=line.head().amount_at(mgpu),
        preemptible=line.preemptible,
    )


def _fits(session: Session, request: Request) -> bool:
    return session.placer(session.start).slots(request.shape).total >= request.count


def _fits_now(session: Session, request: Request) -> bool:
    return session.placer(session.now).slots(request.shape).total >= request.count


def _nominee_on(session: Session, request: Request) -> int | None:
    """Return the first workload for which places are kept where the request would fit."""
    slots = session.placer(session.now).slots(request.shape).by_node
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


def _backing_off(session: Session) -> Iterator[Hold]:
    for workload in session.snapshot.workloads:
        until_us = workload.backing_off_until_us
        if until_us is not None and until_us > session.now_us:
            yield Hold(workload_id=workload.id, reason=Reason.BACKING_OFF, next_try_at_us=until_us)
