"""Nominations: places kept for a workload until its victims are gone. Start, wait, or drop."""

from __future__ import annotations

from scheduler.core.jobs import Job
from scheduler.core.record import Recorder
from scheduler.core.session import Session


def settle_nominations(session: Session, recorder: Recorder) -> tuple[int, ...]:
    """Start the nominees whose places are free, drop what can never come free; return the dropped."""
    dropped = []
    nominees = session.facts.nominees.values()
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
    if session.facts.is_paused(job.workload, session.now_us) or job.leaving:
        return False
    return job.workload.id not in session.facts.vacating and _is_free(session, job)


def _is_void(session: Session, job: Job) -> bool:
    """Test whether the places can never come free: gone, unfit, not asked for, or held by others."""
    workload = job.workload
    if len(job.kept) != len(workload.nominated) or session.facts.is_paused(
        workload, session.now_us
    ):
        return True
    if len(job.held) + len(job.kept) > job.wanted:
        return True
    nodes = session.now.nodes
    if any(place.node not in job.shape.nodes for place in job.kept):
        return True
    stopping = session.facts.stopping_on
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
