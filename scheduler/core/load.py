"""From facts to a session: workloads counted in, and out again, with all that they hold."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.jobs import Held, Job, Leaving
from scheduler.core.placement import Place
from scheduler.core.session import Session, place_of
from scheduler.core.snapshot import Policy, Replica, Snapshot, Workload
from scheduler.core.vocabulary import ReplicaPhase


def open_session(
    snapshot: Snapshot, *, policy: Policy, now_us: int, at_once: bool = False
) -> Session:
    """Return the session of ``snapshot``, before anything is decided."""
    session = Session(snapshot, policy=policy, now_us=now_us, at_once=at_once)
    bring_in(session, snapshot.workloads)
    return session


def bring_in(session: Session, workloads: Iterable[Workload]) -> None:
    """Count ``workloads`` in, and what they hold: first what is there, then what is kept."""
    facts, of = session.facts, session.shapes.of
    holding = []
    for workload in workloads:
        facts.add(workload, of(workload))
        if workload.replicas or workload.nominated:
            holding.append(workload)
    if facts.nominees:
        session.split_books()
    else:
        session.join_books()
    positions: set[int] = set()
    for workload in holding:
        job = session.job_of(workload)
        for replica in workload.replicas:
            _load_replica(session, job, replica)
        session.roster.after_change(job)
        if workload.nominated:
            _load_kept(session, job)
        if job.is_broken:
            session.broken[workload.id] = job
        session.hold_firm(job, -1)
        session.note_nodes(job)
        positions |= _nodes_of(job)
    session.refresh_start(positions)


def take_out(session: Session, workloads: Iterable[Workload]) -> None:
    """Count ``workloads`` out, with all that they hold by now. They were counted in as they are."""
    positions: set[int] = set()
    for workload in workloads:
        session.facts.remove(workload, session.shapes.of(workload))
        job = session.jobs.pop(workload.id, None)
        if job is not None:
            positions |= _nodes_of(job)
            _release(session, job)
    session.refresh_start(positions)


def vacated_for(session: Session, workloads: Iterable[Workload]) -> set[int]:
    """Return who is being stopped for those of ``workloads`` for which places are kept or were."""
    vacating = session.facts.vacating
    return {each for workload in workloads for each in vacating.get(workload.id, ())}


def _load_replica(session: Session, job: Job, replica: Replica) -> None:
    if replica.phase is ReplicaPhase.ENDED:
        return
    stopping = replica.phase is ReplicaPhase.STOPPING
    vacated = stopping and replica.vacated_for_id in session.facts.nominees
    if vacated and session.at_once:
        return
    place = place_of(session, job.shape, replica.placement)
    if place is None:  # on a node that left: it holds an amount but no device
        place = Place(-1, (), job.shape.replica_mgpu)
    _hold(session, job, place, is_vacated=vacated, sign=-1)
    if stopping:
        job.leaving.append(Leaving(place, is_vacated=vacated))
    else:
        job.held.append(Held(replica.id, place, replica.started_at_us))


def _hold(session: Session, job: Job, place: Place, *, is_vacated: bool, sign: int) -> None:
    """Take (-1) or give back (+1) a place in ``now``, and in ``later`` if it is not being vacated."""
    if place.node >= 0:
        session.now.move(place.node, job.shape, place.devices, sign)
        if session.later is not session.now and not is_vacated:
            session.later.move(place.node, job.shape, place.devices, sign)
    if not is_vacated:
        session.count(job, place.mgpu, 1, -sign)


def _load_kept(session: Session, job: Job) -> None:
    places = [place_of(session, job.shape, each) for each in job.workload.nominated]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return  # a place is gone: the nomination is dropped, nothing is counted
    job.kept.extend(known)
    session.keeping[job.workload.id] = job
    for place in known:
        _keep(session, job, place, -1)


def _keep(session: Session, job: Job, place: Place, sign: int) -> None:
    session.later.move(place.node, job.shape, place.devices, sign)
    session.count(job, place.mgpu, 1, -sign)


def _release(session: Session, job: Job) -> None:
    """Undo what loading ``job``, and what was decided since, counted for it."""
    session.note_nodes(job)
    session.hold_firm(job, 1)
    session.roster.before_change(job)
    for held in job.held:
        _hold(session, job, held.place, is_vacated=False, sign=1)
    for leaving in job.leaving:
        _hold(session, job, leaving.place, is_vacated=leaving.is_vacated, sign=1)
    for place in job.kept:
        _keep(session, job, place, 1)
    session.keeping.pop(job.workload.id, None)
    session.broken.pop(job.workload.id, None)
    job.held, job.kept, job.leaving = [], [], []
    session.roster.after_change(job)


def _nodes_of(job: Job) -> set[int]:
    places = [held.place for held in job.held]
    places += job.kept
    places += [each.place for each in job.leaving]
    return {place.node for place in places}
