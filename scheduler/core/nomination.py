"""Nominations: places kept for a workload until its victims are gone. Start, wait, or drop."""

from __future__ import annotations

from scheduler.core.record import Recorder
from scheduler.core.session import Job, Session
from scheduler.core.snapshot import Workload
from scheduler.core.vocabulary import ReplicaPhase


def settle_nominations(session: Session, recorder: Recorder) -> tuple[int, ...]:
    """Start the nominees whose places are free, drop what can never come free; return the dropped."""
    dropped = []
    nominees = [each for each in session.snapshot.workloads if each.nominated]
    for workload in sorted(nominees, key=lambda each: (each.submitted_at_us, each.name, each.id)):
        job = session.jobs[workload.id]
        if _is_void(session, job):
            session.drop_kept(job)
            dropped.append(workload.id)
        elif _may_start_now(session, job):
            places = session.start_kept(job)
            recorder.start_kept(job, places)
    return tuple(dropped)


def _may_start_now(session: Session, job: Job) -> bool:
    """Test whether the nominee may start: no victim of it is left, and all its places are free.

    A victim that was in the way by a limit may leave other devices free meanwhile; a start beside it
    would lift its queue above the limit for as long as it saves.
    """
    if _is_paused(session, job.workload) or job.stopping:
        return False
    return job.workload.id not in _vacated_for(session) and _is_free(session, job)


def _vacated_for(session: Session) -> set[int]:
    return {
        replica.vacated_for_id
        for workload in session.snapshot.workloads
        for replica in workload.replicas
        if replica.phase is ReplicaPhase.STOPPING and replica.vacated_for_id is not None
    }


def _is_paused(session: Session, workload: Workload) -> bool:
    until_us = workload.backing_off_until_us
    return until_us is not None and until_us > session.now_us


def _is_void(session: Session, job: Job) -> bool:
    """Test whether the places can never come free: gone, unfit, not asked for, or held by others."""
    workload = job.workload
    if len(job.kept) != len(workload.nominated) or _is_paused(session, workload):
        return True
    if len(job.held) + len(job.kept) > job.wanted:
        return True
    nodes = session.now.nodes
    if any(place.node not in job.shape.nodes for place in job.kept):
        return True
    stopping = _stopping_by_node(session)
    return any(
        _is_short(session, job, at) and not stopping.get(nodes[at].name)
        for at in sorted({place.node for place in job.kept})
    )


def _is_free(session: Session, job: Job) -> bool:
    """Test whether all places kept for ``job`` are physically free now."""
    return not any(_is_short(session, job, at) for at in {place.node for place in job.kept})


def _is_short(session: Session, job: Job, at: int) -> bool:
    """Test whether the node at ``at`` can't take what is kept on it for ``job`` right now."""
    node = session.now.nodes[at]
    places = [place for place in job.kept if place.node == at]
    for place in places:
        node.move(job.shape, place.devices, -1)
    used = {device for place in places for device in place.devices}
    short = (
        any(node.free_mgpu[device] < 0 or node.free_mib[device] < 0 for device in used)
        or node.free_cpu_milli < 0
        or node.free_memory_mib < 0
    )
    for place in places:
        node.move(job.shape, place.devices, 1)
    return short


def _stopping_by_node(session: Session) -> dict[str, int]:
    counts: dict[str, int] = {}
    for workload in session.snapshot.workloads:
        for replica in workload.replicas:
            if replica.phase is ReplicaPhase.STOPPING:
                name = replica.placement.node
                counts[name] = counts.get(name, 0) + 1
    return counts
