"""Which of the slices that a project holds are borrowed, and from whom. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from scheduler.queries.pool_state import PoolState, ReplicaState, WorkloadState

#: From siblings: only projects of the same department may take it back.
SIBLINGS = "siblings"
#: The department is over its own quota: any other department may take it back.
DEPARTMENTS = "departments"


def held_by_project(state: PoolState) -> dict[int, int]:
    """Return the mGPU that each project holds."""
    held: dict[int, int] = defaultdict(int)
    for replica in state.replicas:
        held[_workload_of(state, replica).project_id] += replica.mgpu
    return held


def borrowed_replicas(state: PoolState) -> dict[int, str]:
    """Return the replicas that a reclaim would take first, and whom their share is borrowed from.

    Least willing to stay goes first: preemptible work, the lower priority, the later start. What
    would take the project below its guarantee is marked only where nothing smaller covers the rest.
    """
    held = held_by_project(state)
    left = {
        project.id: held.get(project.id, 0) - project.quota_mgpu
        for project in state.projects.values()
    }
    beyond = departments_over(state, held=held)
    marks: dict[int, str] = {}
    ordered = sorted(state.replicas, key=lambda replica: _willingness(state, replica))
    for straddles in (False, True):
        for replica in ordered:
            workload = _workload_of(state, replica)
            left_mgpu = left[workload.project_id]
            if replica.id in marks or not workload.preemptible or left_mgpu <= 0:
                continue
            if replica.mgpu > left_mgpu and not straddles:
                continue
            left[workload.project_id] -= replica.mgpu
            department_id = state.projects[workload.project_id].department_id
            marks[replica.id] = DEPARTMENTS if department_id in beyond else SIBLINGS
    return marks


def departments_over(state: PoolState, *, held: Mapping[int, int]) -> frozenset[int]:
    """Return the departments that hold more than their own quota, as far as the reader sees them."""
    sums: dict[int, int] = defaultdict(int)
    for project in state.projects.values():
        sums[project.department_id] += held.get(project.id, 0)
    return frozenset(
        department.id
        for department in state.departments
        if sums[department.id] > department.quota_mgpu
    )


def _willingness(state: PoolState, replica: ReplicaState) -> tuple[int, float, int]:
    workload = _workload_of(state, replica)
    return workload.priority, -replica.booked_at.timestamp(), -replica.id


def _workload_of(state: PoolState, replica: ReplicaState) -> WorkloadState:
    return state.workloads[replica.workload_id]
