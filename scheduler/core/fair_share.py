"""Fair share: guarantees first, then what is idle by rank and, inside a rank, by weight. For showing,
and the bar that the fair-share scope of reclaim measures against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.session import Queue, Session
from scheduler.core.units import WHOLE_GPU_MGPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sibling's claim on what its parent may hold."""

    id: int
    name: str
    quota_mgpu: int
    demand_mgpu: int
    rank: int
    weight_milli: int
    #: When its longest-waiting request was submitted; None where nothing waits.
    waiting_since_us: int | None = None


def divide(*, total_mgpu: int, claims: Sequence[Claim]) -> dict[int, int]:
    """Return each claim's share: min(quota, demand), then the surplus by rank and weight, exact."""
    share = {claim.id: min(claim.quota_mgpu, claim.demand_mgpu) for claim in claims}
    left = total_mgpu - sum(share.values())
    for rank in sorted({claim.rank for claim in claims}, reverse=True):
        peers = [claim for claim in claims if claim.rank == rank]
        for group in (
            [claim for claim in peers if claim.weight_milli],
            [claim for claim in peers if not claim.weight_milli],
        ):
            left = _fill(share, group, left)
    return share


def _fill(share: dict[int, int], claims: Sequence[Claim], left: int) -> int:
    """Fill ``claims`` up by weight until all are content or nothing is left; return what is left."""
    hungry = [claim for claim in claims if share[claim.id] < claim.demand_mgpu]
    while hungry and left > 0:
        weights = {claim.id: claim.weight_milli or 1 for claim in hungry}
        total = sum(weights.values())
        content = [
            claim
            for claim in hungry
            if (claim.demand_mgpu - share[claim.id]) * total <= left * weights[claim.id]
        ]
        if not content:
            return _split(share, hungry, left)
        for claim in content:
            left -= claim.demand_mgpu - share[claim.id]
            share[claim.id] = claim.demand_mgpu
        hungry = [claim for claim in hungry if claim not in content]
    return left


def _split(share: dict[int, int], claims: Sequence[Claim], left: int) -> int:
    """Split ``left`` by weight; the indivisible remainder goes to the longest-waiting."""
    total = sum(claim.weight_milli or 1 for claim in claims)
    given = 0
    for claim in claims:
        part = left * (claim.weight_milli or 1) // total
        share[claim.id] += part
        given += part
    rest = left - given
    for claim in sorted(claims, key=_waiting_key):
        if not rest:
            break
        part = min(rest, claim.demand_mgpu - share[claim.id])
        share[claim.id] += part
        rest -= part
    return rest


def _waiting_key(claim: Claim) -> tuple[bool, int, str]:
    since = claim.waiting_since_us
    return (since is None, since or 0, claim.name)


def fair_shares(session: Session) -> tuple[dict[int, int], dict[int, int]]:
    """Return the fair share of every department and every project, in mGPU."""
    demand, since = _demands(session)
    of_department: dict[int, list[Queue]] = {each: [] for each in session.departments}
    for project in session.projects.values():
        if project.department is not None:
            of_department[project.department.id].append(project)
    claims = {
        department_id: [_claim(each, demand[each.id], since.get(each.id)) for each in projects]
        for department_id, projects in of_department.items()
    }
    departments = divide(
        total_mgpu=_capacity_mgpu(session),
        claims=[
            _claim(
                department,
                min(department.limit_mgpu, sum(each.demand_mgpu for each in claims[department.id])),
                _earliest(claims[department.id]),
            )
            for department in session.departments.values()
        ],
    )
    projects: dict[int, int] = {}
    for department_id, parts in claims.items():
        projects |= divide(total_mgpu=departments[department_id], claims=parts)
    return departments, projects


def _claim(queue: Queue, demand_mgpu: int, since_us: int | None) -> Claim:
    return Claim(
        id=queue.id,
        name=queue.name,
        quota_mgpu=queue.quota.quota_mgpu,
        demand_mgpu=demand_mgpu,
        rank=queue.quota.rank,
        weight_milli=queue.quota.weight_milli,
        waiting_since_us=since_us,
    )


def _earliest(claims: Sequence[Claim]) -> int | None:
    known = [claim.waiting_since_us for claim in claims if claim.waiting_since_us is not None]
    return min(known, default=None)


def _capacity_mgpu(session: Session) -> int:
    return sum(
        WHOLE_GPU_MGPU
        for node in session.snapshot.nodes
        if node.schedulable
        for device in node.devices
        if device.healthy
    )


def _demands(session: Session) -> tuple[dict[int, int], Mapping[int, int]]:
    """Return what each project could hold (non-preemptible work only within its quota), and since
    when its longest-waiting workload waits.
    """
    lent = dict.fromkeys(session.projects, 0)
    firm = dict.fromkeys(session.projects, 0)
    since: dict[int, int] = {}
    for workload in session.snapshot.workloads:
        wanted = max(workload.min_replicas, workload.max_replicas)
        live = len(workload.replicas)
        amount = session.shapes.of(workload).replica_mgpu * max(wanted, live)
        (lent if workload.preemptible else firm)[workload.project_id] += amount
        if live < wanted:
            before = since.get(workload.project_id, workload.submitted_at_us)
            since[workload.project_id] = min(before, workload.submitted_at_us)
    return {
        project_id: min(
            queue.limit_mgpu,
            lent[project_id]
            + min(firm[project_id], max(queue.quota.quota_mgpu, queue.protected_mgpu)),
        )
        for project_id, queue in session.projects.items()
    }, since
