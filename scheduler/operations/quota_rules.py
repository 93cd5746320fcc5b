"""What quotas must keep to, and what is allowed but said: rules over the whole tree as it would be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import MAX_MGPU, format_gpu
from scheduler.core.vocabulary import Level, Rank
from scheduler.operations.refused import Problem
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree

#: The largest weight: sums of a thousand of them stay exact.
MAX_WEIGHT_MILLI = 1_000_000


def normalized(quota: QueueQuota) -> QueueQuota:
    """Return the values as they are kept: without borrowing the limit is the guarantee."""
    return quota if quota.over_quota else replace(quota, limit_mgpu=quota.quota_mgpu)


def within_reach(row: QuotaRow, quota: QueueQuota) -> QueueQuota:
    """Return how far a switch may go now: not below what work holds that can't be interrupted."""
    quota = normalized(quota)
    if quota.quota_mgpu >= row.protected_mgpu:
        return quota
    reached_mgpu = min(row.protected_mgpu, max(row.quota.quota_mgpu, quota.quota_mgpu))
    limit_mgpu = max(quota.limit_mgpu, reached_mgpu)
    return normalized(replace(quota, quota_mgpu=reached_mgpu, limit_mgpu=limit_mgpu))


def find_problems(*, tree: QuotaTree, edited: Iterable[Key]) -> list[Problem]:
    """Return what can't be, row by row; ``tree`` is as it would be after the change."""
    problems: list[Problem] = []
    for row in _rows(tree, edited):
        problems += _own_problems(row)
        problems += _protected_problems(row)
    return problems


def find_warnings(*, tree: QuotaTree, edited: Iterable[Key]) -> list[Problem]:
    """Return what is allowed and will surprise: sums above their parent, rows that can never run."""
    edited = list(edited)
    warnings: list[Problem] = []
    for row in _rows(tree, edited):
        warnings += _never_warnings(row)
        warnings += _above_warnings(row)
    return warnings + find_oversubscription(tree=tree, edited=edited)


def find_oversubscription(*, tree: QuotaTree, edited: Iterable[Key]) -> list[Problem]:
    """Return where the guarantees add up to more than there is, from either side of an edit."""
    rows = list(_rows(tree, edited))
    found: list[Problem] = []
    departments = [row for row in tree.rows if row.level is Level.DEPARTMENT]
    if any(row.level is Level.DEPARTMENT for row in rows):
        first = next(row for row in rows if row.level is Level.DEPARTMENT)
        promised = sum(row.quota.quota_mgpu for row in departments)
        found += _beyond("pool", promised, tree.capacity_mgpu, first)
    for row in rows:
        if row.level is Level.DEPARTMENT:
            promised = sum(child.quota.quota_mgpu for child in tree.children(row))
            found += _beyond("projects", promised, row.quota.quota_mgpu, row)
    told = {row.id for row in rows if row.level is Level.DEPARTMENT}
    for row in rows:
        if row.level is Level.PROJECT and row.department_id not in told:
            told.add(row.department_id)
            parent = tree.row((Level.DEPARTMENT, row.department_id))
            promised = sum(sibling.quota.quota_mgpu for sibling in tree.siblings(row))
            found += _beyond("department", promised, parent.quota.quota_mgpu if parent else 0, row)
    return found


def _rows(tree: QuotaTree, edited: Iterable[Key]) -> Iterable[QuotaRow]:
    wanted = set(edited)
    return (row for row in tree.rows if row.key in wanted)


def _own_problems(row: QuotaRow) -> list[Problem]:
    quota = row.quota
    problems: list[Problem] = []
    if not 0 <= quota.quota_mgpu <= MAX_MGPU:
        problems.append(
            Problem(
                field="quota",
                code="negative",
                message="A guarantee must not be negative.",
                unit=row.unit,
            )
        )
    if quota.limit_mgpu < quota.quota_mgpu:
        problems.append(
            Problem(
                field="limit",
                code="limit_below_quota",
                message=(
                    f"The limit {format_gpu(quota.limit_mgpu)} is below the guarantee "
                    f"{format_gpu(quota.quota_mgpu)}. Raise the limit or lower the guarantee."
                ),
                params={"limit": quota.limit_mgpu, "quota": quota.quota_mgpu},
                unit=row.unit,
            )
        )
    if quota.rank not in set(Rank) or not 0 <= quota.weight_milli <= MAX_WEIGHT_MILLI:
        problems.append(
            Problem(
                field="weight",
                code="bad_weight",
                message="A weight is a number from 0 to 1000, a rank one of the five.",
                unit=row.unit,
            )
        )
    return problems


def _protected_problems(row: QuotaRow) -> list[Problem]:
    if row.quota.quota_mgpu >= row.protected_mgpu:
        return []
    holders = ", ".join(row.holders)
    return [
        Problem(
            field="quota",
            code="quota_below_protected",
            message=(
                f"Work of {row.name} that can't be interrupted holds {format_gpu(row.protected_mgpu)} "
                f"({holders}). The guarantee can't go below that: stop some of it first."
            ),
            params={
                "name": row.name,
                "protected": row.protected_mgpu,
                "quota": row.quota.quota_mgpu,
                "holders": holders,
            },
            unit=row.unit,
        )
    ]


def _never_warnings(row: QuotaRow) -> list[Problem]:
    if row.quota.effective_limit_mgpu:
        return []
    return [
        Problem(
            field="quota",
            code="no_gpu_ever",
            message=(
                f"{row.name} is guaranteed nothing and may not borrow: no GPU work of it can ever "
                "run. Give it a guarantee, or let it borrow."
            ),
            params={"name": row.name},
            unit=row.unit,
        )
    ]


def _above_warnings(row: QuotaRow) -> list[Problem]:
    """Return that a row holds more than it is guaranteed from now on; nothing ends by that alone.

    A limit below the guarantee is a mistake by itself and can't be measured against.
    """
    limit_mgpu = row.quota.effective_limit_mgpu
    if row.held_mgpu <= limit_mgpu or limit_mgpu < row.quota.quota_mgpu:
        return []
    over_mgpu = row.held_mgpu - row.quota.quota_mgpu
    return [
        Problem(
            field="limit",
            code="holds_above_limit",
            message=(
                f"{row.name} holds {format_gpu(row.held_mgpu)}, {format_gpu(over_mgpu)} above the "
                "new guarantee and more than the new limit. Nothing is stopped for that; nothing "
                "new starts until it holds less."
            ),
            params={"name": row.name, "held": row.held_mgpu, "over": over_mgpu},
            unit=row.unit,
        )
    ]


def _beyond(where: str, promised_mgpu: int, available_mgpu: int, row: QuotaRow) -> list[Problem]:
    if promised_mgpu <= available_mgpu:
        return []
    return [
        Problem(
            field="quota",
            code=f"oversubscribed_{where}",
            message=(
                f"The guarantees add up to {format_gpu(promised_mgpu)} of "
                f"{format_gpu(available_mgpu)}: not all can be kept at once."
            ),
            params={"promised": promised_mgpu, "available": available_mgpu},
            unit=row.unit,
        )
    ]
