"""How idle GPUs would be divided among siblings: by rank and, inside a rank, by weight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.fair_share import Claim, divide
from scheduler.core.vocabulary import Level
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree

#: Siblings of one rank: the department (0 for departments themselves) and the rank.
_Group = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One row's part of what its rank gets, if all of that rank want more."""

    permille: int
    #: What it would get now of what is idle and within the parent's limit; no more than its own limit.
    #: None: not told, since the cluster's setting hides what others hold.
    mgpu: int | None


def find_shares(tree: QuotaTree) -> dict[Key, Share]:
    """Return the share of each row that may borrow, as the core divides it.

    Only where the reader sees all siblings: of what is divided with others no part is known.
    """
    groups: dict[_Group, list[QuotaRow]] = defaultdict(list)
    for row in tree.rows:
        if row.quota.over_quota and row.known and _sees_siblings(tree, row):
            parent_id = row.department_id if row.level is Level.PROJECT else 0
            groups[parent_id, row.quota.rank].append(row)
    shares: dict[Key, Share] = {}
    for rows in groups.values():
        idle_mgpu = _idle_mgpu(tree, rows[0])
        room = {row.id: max(0, row.quota.limit_mgpu - row.held_mgpu) for row in rows}
        parts = _divided(rows, 1000, dict.fromkeys(room, 1000))
        amounts = _divided(rows, idle_mgpu, room)
        for row in rows:
            mgpu = amounts[row.id] if tree.tells_others else None
            shares[row.key] = Share(permille=parts[row.id], mgpu=mgpu)
    return shares


def _sees_siblings(tree: QuotaTree, row: QuotaRow) -> bool:
    if row.level is Level.DEPARTMENT:
        return tree.whole
    parent = tree.row((Level.DEPARTMENT, row.department_id))
    return parent is not None and parent.known


def _divided(rows: Sequence[QuotaRow], total: int, room: Mapping[int, int]) -> dict[int, int]:
    """Return how the core divides ``total`` where each wants as much as it has room for."""
    claims = [
        Claim(
            id=row.id,
            name=row.name,
            quota_mgpu=0,
            demand_mgpu=min(room[row.id], total),
            rank=row.quota.rank,
            weight_milli=row.quota.weight_milli,
        )
        for row in rows
    ]
    return divide(total_mgpu=total, claims=claims)


def _idle_mgpu(tree: QuotaTree, row: QuotaRow) -> int:
    free_mgpu = max(0, tree.capacity_mgpu - tree.allocated_mgpu)
    if row.level is Level.DEPARTMENT:
        return free_mgpu
    parent = tree.row((Level.DEPARTMENT, row.department_id))
    assert parent is not None
    return min(free_mgpu, max(0, parent.quota.effective_limit_mgpu - parent.held_mgpu))
