"""Fair share: guarantees first, then what is idle by rank and, inside a rank, by weight. For showing,
and the bar that the fair-share scope of reclaim measures against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.queues import Queue
from scheduler.core.session import Session
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


class FairShares:
    """The fair share of every queue, divided anew only where something was counted since."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._capacity_mgpu = _capacity_mgpu(session)
        self._claims: dict[int, dict[int, Claim]] = {each: {} for each in session.departments}
        self._stale = set(session.departments)
        self._departments: dict[int, int] = {}
        self._projects: dict[int, dict[int, int]] = {}

    def divide(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the fair share of every department and every project, in mGPU."""
        stale = self._renew_claims()
        if stale:
            before = self._departments
            self._departments = divide(
                total_mgpu=self._capacity_mgpu, claims=self._department_claims()
            )
            for department_id, share in self._departments.items():
                if department_id in stale or before.get(department_id) != share:
                    claims = list(self._claims[department_id].values())
                    self._projects[department_id] = divide(total_mgpu=share, claims=claims)
        projects = {key: share for parts in self._projects.values() for key, share in parts.items()}
        return dict(self._departments), projects

    def queue_changed(self, queue: Queue) -> None:
        """Note that the bounds of ``queue`` are others."""
        if queue.department is None:
            self._stale.add(queue.id)
        else:
            self._session.facts.changed_projects.add(queue.id)

    def _renew_claims(self) -> set[int]:
        """Bring the claims up to date; return the departments in which one is another."""
        session = self._session
        stale, self._stale = self._stale, set()
        for project_id in session.facts.changed_projects:
            project = session.projects[project_id]
            assert project.department is not None
            claim = _project_claim(session, project)
            claims = self._claims[project.department.id]
            if claims.get(project_id) != claim:
                claims[project_id] = claim
                stale.add(project.department.id)
        session.facts.changed_projects.clear()
        return stale

    def _department_claims(self) -> list[Claim]:
        claims = []
        for department in self._session.departments.values():
            parts = self._claims[department.id].values()
            demand_mgpu = min(department.limit_mgpu, sum([each.demand_mgpu for each in parts]))
            claims.append(_claim(department, demand_mgpu, _earliest(parts)))
        return claims


def _project_claim(session: Session, project: Queue) -> Claim:
    """Return what a project could hold (non-preemptible work only within its quota), and since when its
    longest-waiting workload waits.
    """
    facts = session.facts
    firm_mgpu = min(
        facts.firm_mgpu(project.id), max(project.quota.quota_mgpu, project.protected_mgpu)
    )
    demand_mgpu = min(project.limit_mgpu, facts.lent_mgpu(project.id) + firm_mgpu)
    return _claim(project, demand_mgpu, facts.waiting_since_us(project.id))


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


def _earliest(claims: Iterable[Claim]) -> int | None:
    known = [claim.waiting_since_us for claim in claims if claim.waiting_since_us is not None]
    return min(known, default=None)


def _capacity_mgpu(session: Session) -> int:
    return sum(
        WHOLE_GPU_MGPU
        for node in session.nodes
        if node.schedulable
        for device in node.devices
        if device.healthy
    )
