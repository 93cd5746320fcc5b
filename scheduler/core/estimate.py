"""When a waiting workload may start: the pool is simulated on, once with early ends and once with late ones.

It is an estimate and no more: nobody knows what will be submitted meanwhile. Where all ends are known, both
runs are the same, and their start is what the simulation itself would come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.core.simulation import SimulatedPool, Work
from scheduler.core.snapshot import Policy, Snapshot, Workload
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.core.waiting import LineKey, next_request

#: Beyond this many ends, or this far, nothing is said.
MOST_ENDS = 400
HORIZON_US = 7 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How long a workload runs from now on, or from its start; None: it does not end by itself."""

    soonest_us: int | None
    latest_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRange:
    """From when to when a start is to be expected."""

    soonest_us: int
    latest_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a workload stands in its project's line, from 1, and how many of its department came before."""

    position: int
    waiting: int
    ahead_in_department: int


def find_range(
    *,
    snapshot: Snapshot,
    policy: Policy,
    now_us: int,
    workload_id: int,
    ends: Mapping[int, Ends],
    most_ends: int = MOST_ENDS,
) -> StartRange | None:
    """Return the range of a waiting workload's start, or None: it hangs on what has no known end.

    ``most_ends``: how many instants are looked at in each of the two runs.
    """
    starts = []
    for is_late in (False, True):
        lefts = {key: each.latest_us if is_late else each.soonest_us for key, each in ends.items()}
        start_us = find_start(
            snapshot=snapshot,
            policy=policy,
            now_us=now_us,
            workload_id=workload_id,
            lefts=lefts,
            most_ends=most_ends,
        )
        if start_us is None:
            return None
        starts.append(start_us)
    return StartRange(soonest_us=min(starts), latest_us=max(starts))


def find_start(
    *,
    snapshot: Snapshot,
    policy: Policy,
    now_us: int,
    workload_id: int,
    lefts: Mapping[int, int | None],
    most_ends: int = MOST_ENDS,
) -> int | None:
    """Return when a workload starts if all others run so long; None: not within what is looked at."""
    ids = [replica.id for each in snapshot.workloads for replica in each.replicas]
    pool = SimulatedPool(
        replace(snapshot, workloads=()), policy=policy, last_id=max(ids, default=0)
    )
    for workload in snapshot.workloads:
        pool.add(Work(workload=_settled(workload), left_us=lefts.get(workload.id)))
    at_us = now_us
    for _ in range(most_ends):
        pool.pass_time(to_us=at_us)
        pool.decide()
        target = pool.live.get(workload_id)
        if target is None or target.workload.replicas:
            return at_us
        kept_back = target.workload.kept_back
        instants = (
            target.workload.backing_off_until_us,
            None if kept_back is None else kept_back.until_us,
            policy.frozen_until_us,
        )
        later = [each for each in instants if each is not None and each > at_us]
        if pool.next_end_us is not None:  # it may be this very instant
            later.append(max(at_us, pool.next_end_us))
        if not later or min(later) > now_us + HORIZON_US:
            return None
        at_us = min(later)
    return None


def find_place(snapshot: Snapshot, workload_id: int) -> Place | None:
    """Return where a waiting workload stands; None: it does not wait."""
    waiting = [
        each for each in snapshot.workloads if not each.replicas and next_request(each, None)
    ]
    own = next((each for each in waiting if each.id == workload_id), None)
    if own is None:
        return None
    departments = {each.id: each.department_id for each in snapshot.projects}
    line = sorted((each for each in waiting if each.project_id == own.project_id), key=_turn)
    others = (
        each
        for each in waiting
        if each.project_id != own.project_id
        and departments[each.project_id] == departments[own.project_id]
    )
    return Place(
        position=1 + line.index(own),
        waiting=len(line),
        ahead_in_department=sum(each.submitted_at_us < own.submitted_at_us for each in others),
    )


def _turn(workload: Workload) -> LineKey:
    """Return where what it asks for stands inside its project, as the scheduler's lines have it."""
    asked = next_request(workload, None)
    further = asked is not None and asked[1]
    return (-workload.priority, further, workload.submitted_at_us, workload.name, workload.id)


def _settled(workload: Workload) -> Workload:
    """Return a workload without what leaves already: in simulated time that is gone at once."""
    staying = tuple(each for each in workload.replicas if each.phase is not ReplicaPhase.STOPPING)
    return replace(workload, replicas=staying, nominated=())
