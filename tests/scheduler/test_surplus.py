"""The share of surplus beside each row: what the core's fair share gives it, no other figure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.fair_share import Claim, divide
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level, Rank
from scheduler.queries.pool_state import PoolRow
from scheduler.queries.quota_tree import QuotaRow, QuotaTree
from scheduler.queries.surplus import find_shares


def row(number, *, held=0, level=Level.DEPARTMENT, **quota):
    return QuotaRow(
        level=level,
        id=number,
        name=f"unit-{number}",
        color=1,
        department_id=number,
        quota=QueueQuota(**quota),
        version=1,
        held_mgpu=held,
        protected_mgpu=0,
        holders=(),
    )


def tree(*rows, capacity=8000):
    return QuotaTree(
        pool=PoolRow(id=1, name="main"),
        rows=rows,
        capacity_mgpu=capacity,
        allocated_mgpu=sum(each.held_mgpu for each in rows),
    )


def shares(*rows, **about):
    found = find_shares(tree(*rows, **about))
    return {key[1]: (share.permille, share.mgpu) for key, share in found.items()}


def test_inside_a_rank_weight_divides_and_a_limit_leaves_the_rest_to_the_others():
    # Given 5.00 idle, weights 2 and 1 and 1, and the first may hold only 1.00 more
    found = shares(
        row(1, held=1000, limit_mgpu=2000, weight_milli=2000),
        row(2, held=1000, weight_milli=1000),
        row(3, held=1000, weight_milli=1000),
    )
    assert found == {1: (500, 1000), 2: (250, 2000), 3: (250, 2000)}


def test_another_rank_and_those_who_may_not_borrow_take_no_part():
    found = shares(row(1), row(2, over_quota=False), row(3, rank=Rank.HIGH))
    assert found == {1: (1000, 8000), 3: (1000, 8000)}


def test_weight_0_comes_after_all_others_of_its_rank():
    assert shares(row(1, weight_milli=0), row(2)) == {1: (0, 0), 2: (1000, 8000)}
    assert shares(row(1, weight_milli=0), row(2, weight_milli=0)) == {
        1: (500, 4000),
        2: (500, 4000),
    }


@given(
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 5)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 20_000),
)
def test_the_amounts_are_those_of_the_cores_division(parts, capacity):
    rows = [
        row(number, held=held, limit_mgpu=held + room, weight_milli=1000 * weight)
        for number, (held, room, weight) in enumerate(parts, start=1)
    ]
    idle = max(0, capacity - sum(each.held_mgpu for each in rows))
    # Given the same siblings as the core sees them: each guaranteed what it holds, wanting its limit
    claims = [
        Claim(
            id=each.id,
            name=each.name,
            quota_mgpu=each.held_mgpu,
            demand_mgpu=each.quota.limit_mgpu,
            rank=each.quota.rank,
            weight_milli=each.quota.weight_milli,
        )
        for each in rows
    ]
    total = idle + sum(each.held_mgpu for each in rows)
    whole = divide(total_mgpu=total, claims=claims)
    found = find_shares(tree(*rows, capacity=capacity))
    for each in rows:
        assert found[each.key].mgpu == whole[each.id] - each.held_mgpu
    assert sum(share.permille for share in found.values()) == 1000
