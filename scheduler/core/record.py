"""The record of a cycle: decisions in the order in which they were made, turned into a plan's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core import quota
from scheduler.core.allocate import budget_of
from scheduler.core.books import Books
from scheduler.core.choice import Found
from scheduler.core.consolidate import Packing
from scheduler.core.jobs import Held, Job
from scheduler.core.placement import Place
from scheduler.core.plan import Check, Decision, Evict, Start, Victim
from scheduler.core.session import Session, placement_of
from scheduler.core.snapshot import Placement
from scheduler.core.victims import Taken
from scheduler.core.vocabulary import Rule
from scheduler.core.waiting import Request

#: How many of those that were spared are named.
_SPARED = 10


@dataclass(slots=True)
class _Started:
    step: int
    job: Job
    helds: list[Held]


@dataclass(slots=True, kw_only=True)
class _Evicted:
    step: int
    rule: Rule
    served: Job | None
    victims: tuple[Victim, ...]
    checks: tuple[Check, ...] = ()
    spared_ids: tuple[int, ...] = ()
    shortfall_mgpu: int = 0
    #: mGPU that the victims leave, by node and device.
    freed: Mapping[tuple[int, int], int] = field(default_factory=dict)
    placements: tuple[Placement, ...] = ()
    moves: Mapping[int, Placement] = field(default_factory=dict)


class Recorder:
    """Collects decisions. A start that is taken back in the same cycle leaves no trace."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._step = 0
        self._entries: list[_Started | _Evicted] = []

    def start(self, job: Job, replicas: int) -> None:
        """Record that the last ``replicas`` of ``job`` were started, as a step of its own."""
        self._step += 1
        self._started(job, replicas)

    def _started(self, job: Job, replicas: int) -> None:
        self._entries.append(_Started(self._step, job, job.held[-replicas:]))

    def lost(self, job: Job) -> None:
        """Record that what is left of a broken gang is stopped."""
        self._step += 1
        victim = Victim(
            workload_id=job.workload.id,
            replica_ids=tuple(held.id for held in job.held),
            whole=True,
            freed_mgpu=sum(held.place.mgpu for held in job.held),
        )
        self._entries.append(
            _Evicted(step=self._step, rule=Rule.LOST, served=None, victims=(victim,))
        )

    def evict(self, request: Request, rule: Rule, found: Found) -> None:
        """Record an eviction, before it is carried out."""
        self._step += 1
        request_mgpu = request.amount.mgpu
        check = quota.entitlement_checks if rule is Rule.RECLAIM else quota.limit_checks
        self._entries.append(
            _Evicted(
                step=self._step,
                rule=rule,
                served=self._session.job_of(request.workload),
                victims=tuple(_victim(taken, rule) for taken in found.chosen),
                checks=check(project=request.project, request_mgpu=request_mgpu),
                spared_ids=tuple(each.job.workload.id for each in found.spared[:_SPARED]),
                freed=_freed(found),
                moves={} if found.packing is None else self._moves(found.packing),
            )
        )

    def _moves(self, packing: Packing) -> dict[int, Placement]:
        return {move.held.id: placement_of(self._session, move.place) for move in packing.moves}

    def serve(self, request: Request, packing: Packing | None, *, wait: bool) -> None:
        """Start the request of the eviction just recorded, or keep its places until they are free."""
        session = self._session
        entry = self._entries[-1]
        assert isinstance(entry, _Evicted)
        assert entry.served is not None
        books, places = session.start, None
        if not wait:
            places = self._take(session.start, request, packing)
        if places is not None:
            session.start_replicas(entry.served, places)
            self._started(entry.served, len(places))
        else:
            books = session.later
            places = self._take(books, request, packing)
            assert places is not None, "a set of victims that works leaves room"
            session.keep(entry.served, places)
        entry.placements = tuple(placement_of(session, place) for place in places)
        entry.shortfall_mgpu = sum(
            max(0, entry.freed.get((place.node, at), 0) - books.nodes[place.node].free_mgpu[at])
            for place in places
            for at in place.devices
        )

    def _take(self, books: Books, request: Request, packing: Packing | None) -> list[Place] | None:
        """Take the places of ``packing``, or else the best ones, in ``books``."""
        if packing is None:
            return self._session.placer(books).place_all(
                request.shape, request.count, budget_mgpu=budget_of(request)
            )
        for place in packing.places:
            books.move(place.node, request.shape, place.devices, -1)
        return list(packing.places)

    def start_kept(self, job: Job, places: Sequence[Place]) -> None:
        """Record that ``job`` starts where places were kept for it."""
        self.start(job, len(places))

    def decisions(self) -> tuple[Decision, ...]:
        """Return the plan's decisions."""
        made: list[Decision] = []
        for entry in self._entries:
            decision = (
                self._start_of(entry) if isinstance(entry, _Started) else self._evict_of(entry)
            )
            if decision is not None:
                made.append(decision)
        return tuple(made)

    def _start_of(self, entry: _Started) -> Start | None:
        helds = entry.helds
        if not self._session.at_once:
            helds = [held for held in helds if held in entry.job.held]
        if not helds:
            return None
        return Start(
            step=entry.step,
            workload_id=entry.job.workload.id,
            placements=tuple(placement_of(self._session, held.place) for held in helds),
        )

    def _evict_of(self, entry: _Evicted) -> Evict | None:
        victims = entry.victims
        if not self._session.at_once:
            victims = tuple(each for each in map(_without_new, victims) if each is not None)
        if not victims and not entry.moves:
            return None
        unstarted = set()
        if not self._session.at_once:
            unstarted = {
                victim.workload_id
                for victim in entry.victims
                if any(replica_id < 0 for replica_id in victim.replica_ids)
            }
        return Evict(
            step=entry.step,
            rule=entry.rule,
            served_id=None if entry.served is None else entry.served.workload.id,
            victims=victims,
            placements=entry.placements,
            moves=entry.moves,
            checks=entry.checks,
            spared_ids=entry.spared_ids,
            shortfall_mgpu=entry.shortfall_mgpu,
            unstarted_ids=tuple(sorted(unstarted)),
        )


def _victim(taken: Taken, rule: Rule) -> Victim:
    project = taken.candidate.job.project
    surplus = project.alloc_mgpu - project.bar_mgpu
    return Victim(
        workload_id=taken.candidate.job.workload.id,
        replica_ids=tuple(held.id for held in taken.helds),
        whole=taken.whole,
        freed_mgpu=taken.mgpu,
        straddler=rule is Rule.RECLAIM and taken.mgpu > surplus,
    )


def _without_new(victim: Victim) -> Victim | None:
    """Return ``victim`` without replicas that only this cycle had started; None if none is left."""
    ids = tuple(each for each in victim.replica_ids if each >= 0)
    if len(ids) == len(victim.replica_ids):
        return victim
    if not ids:
        return None
    return Victim(
        workload_id=victim.workload_id,
        replica_ids=ids,
        whole=victim.whole,
        freed_mgpu=victim.freed_mgpu,
        straddler=victim.straddler,
    )


def _freed(found: Found) -> dict[tuple[int, int], int]:
    """Return the mGPU that the victims leave, by node and device."""
    freed: dict[tuple[int, int], int] = {}
    for taken in found.chosen:
        for held in taken.helds:
            place = held.place
            for at in place.devices:
                share = place.mgpu // len(place.devices)
                freed[place.node, at] = freed.get((place.node, at), 0) + share
    return freed
