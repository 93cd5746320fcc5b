"""The quota tree: what each department and project holds against its guarantee. Pure over PoolState."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from scheduler.core.units import UNLIMITED_MGPU
from scheduler.queries import borrowing
from scheduler.queries.pool_queues import QueueState
from scheduler.queries.pool_state import PoolState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One bar of the tree. ``known`` False: the reader sees only its name and its own part of it."""

    id: int
    name: str
    is_department: bool
    color: int
    known: bool
    held_mgpu: int
    idle_mgpu: int
    borrowed_mgpu: int
    quota_mgpu: int
    #: None: no limit.
    limit_mgpu: int | None
    over_quota: bool
    rank: int
    weight_milli: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """Departments, each followed by its projects."""

    rows: tuple[QueueRow, ...]
    unused_guarantee_mgpu: int


@dataclass(slots=True)
class _Sums:
    held_mgpu: int = 0
    idle_mgpu: int = 0
    waiting: int = 0


def make_queue_tree(state: PoolState) -> QueueTree:
    """Return the tree of a pool's state."""
    sums = _sums_by_project(state)
    rows: list[QueueRow] = []
    for department in state.departments:
        children = [
            project
            for project in state.projects.values()
            if project.department_id == department.id
            and (project.listed or sums[project.id].held_mgpu or sums[project.id].waiting)
        ]
        total = _Sums()
        for child in children:
            total.held_mgpu += sums[child.id].held_mgpu
            total.idle_mgpu += sums[child.id].idle_mgpu
            total.waiting += sums[child.id].waiting
        known = department.id in state.open_department_ids
        rows.append(_row(department, total, is_department=True, known=known))
        rows.extend(_row(child, sums[child.id], is_department=False) for child in children)
    unused_mgpu = sum(
        max(0, row.quota_mgpu - row.held_mgpu) for row in rows if not row.is_department
    )
    return QueueTree(rows=tuple(rows), unused_guarantee_mgpu=unused_mgpu)


def _sums_by_project(state: PoolState) -> dict[int, _Sums]:
    sums: dict[int, _Sums] = defaultdict(_Sums)
    for project_id, held_mgpu in borrowing.held_by_project(state).items():
        sums[project_id].held_mgpu = held_mgpu
    for replica in state.replicas:
        if replica.idle:
            sums[state.workloads[replica.workload_id].project_id].idle_mgpu += replica.mgpu
    for workload in state.workloads.values():
        if workload.waits:
            sums[workload.project_id].waiting += 1
    return sums


def _row(queue: QueueState, sums: _Sums, *, is_department: bool, known: bool = True) -> QueueRow:
    limit_mgpu = queue.limit_mgpu if queue.over_quota else queue.quota_mgpu
    return QueueRow(
        id=queue.id,
        name=queue.name,
        is_department=is_department,
        color=queue.color,
        known=known,
        held_mgpu=sums.held_mgpu,
        idle_mgpu=sums.idle_mgpu,
        borrowed_mgpu=max(0, sums.held_mgpu - queue.quota_mgpu) if known else 0,
        quota_mgpu=queue.quota_mgpu if known else 0,
        limit_mgpu=None if not known or limit_mgpu >= UNLIMITED_MGPU else limit_mgpu,
        over_quota=queue.over_quota,
        rank=queue.rank,
        weight_milli=queue.weight_milli,
        waiting=sums.waiting,
    )
