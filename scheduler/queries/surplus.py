"""How idle GPUs would be divided among siblings: by rank and, inside a rank, by weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.vocabulary import Level
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One row's part of what its rank gets, if all of that rank want more."""

    permille: int
    #: That part of what is idle now and within the parent's limit.
    mgpu: int


def find_shares(tree: QuotaTree) -> dict[Key, Share]:
    """Return the share of each row that may borrow. The core divides by the same weights."""
    shares: dict[Key, Share] = {}
    for row in tree.rows:
        if not row.quota.over_quota or not row.known:
            continue
        permille = _permille(row, tree.siblings(row))
        shares[row.key] = Share(permille=permille, mgpu=_idle_mgpu(tree, row) * permille // 1000)
    return shares


def _permille(row: QuotaRow, siblings: Sequence[QuotaRow]) -> int:
    peers = [
        peer.quota.weight_milli
        for peer in siblings
        if peer.quota.over_quota and peer.quota.rank == row.quota.rank
    ]
    total = sum(peers)
    if not total:
        return 1000 // len(peers)
    return 1000 * row.quota.weight_milli // total


def _idle_mgpu(tree: QuotaTree, row: QuotaRow) -> int:
    free_mgpu = max(0, tree.capacity_mgpu - tree.allocated_mgpu)
    if row.level is Level.DEPARTMENT:
        return free_mgpu
    parent = tree.row((Level.DEPARTMENT, row.department_id))
    if parent is None or not parent.known:
        return free_mgpu
    return min(free_mgpu, max(0, parent.quota.effective_limit_mgpu - parent.held_mgpu))
