"""What a department or project holds now, what it may borrow, and who can take what it borrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Level
from scheduler.queries.queues import QueueRow
from scheduler.queries.units import UnitRow

#: So many names are told; further ones are counted.
MOST_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitNow:
    """One unit in one node pool."""

    row: QueueRow
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A row with its department's."""

    row: QueueRow
    department: QueueRow


def tell_now(*, unit: UnitRow, rows: Sequence[QueueRow]) -> UnitNow | None:
    """Return what is told of a unit, or None where it has nothing in the pool of these rows."""
    placed = list(_placed(rows))
    mine = next(
        (
            one
            for one in placed
            if one.row.id == unit.id and one.row.is_department == (unit.level is Level.DEPARTMENT)
        ),
        None,
    )
    if mine is None or not mine.row.known:
        return None
    told = (_holds(mine.row), _may_borrow(mine.row), *_may_be_taken(mine, placed))
    return UnitNow(row=mine.row, sentences=told)


def _placed(rows: Iterable[QueueRow]) -> Iterable[_Placed]:
    department: QueueRow | None = None
    for row in rows:
        if row.is_department:
            department = row
        if department is not None:
            yield _Placed(row, department)


def _holds(row: QueueRow) -> str:
    return _("{name} holds {held} of {quota} guaranteed.").format(
        name=row.name, held=format_gpu(row.held_mgpu), quota=format_gpu(row.quota_mgpu)
    )


def _may_borrow(row: QueueRow) -> str:
    if not row.over_quota or row.limit_mgpu == row.quota_mgpu:
        return _("It may not borrow.")
    if row.limit_mgpu is None:
        return _("It may borrow whatever is idle.")
    return _("It may borrow, up to {limit} in all.").format(limit=format_gpu(row.limit_mgpu))


def _may_be_taken(mine: _Placed, placed: Sequence[_Placed]) -> tuple[str, ...]:
    row, department = mine.row, mine.department
    if not row.borrowed_mgpu:
        return (_("Nothing it holds can be taken by others."),)
    # Of a department that the reader sees in part it is not known whether it borrows.
    beyond = row.is_department or not department.known or department.borrowed_mgpu > 0
    if row.is_department:
        told = _("Other departments that ask for their guarantee can take back {borrowed} of it.")
    elif beyond:
        told = _("Other projects that ask for their guarantee can take back {borrowed} of it.")
    else:
        told = _(
            "Projects of its department that ask for their guarantee can take back {borrowed} of it."
        )
    told = told.format(borrowed=format_gpu(row.borrowed_mgpu))
    takers = [
        one.row
        for one in placed
        if not one.row.is_department
        and one.row != row
        and one.row.quota_mgpu > one.row.held_mgpu
        and (beyond if one.department.id != department.id else not row.is_department)
    ]
    return (told, _unused(takers)) if takers else (told,)


def _unused(takers: list[QueueRow]) -> str:
    takers.sort(key=lambda one: (one.held_mgpu - one.quota_mgpu, one.name))
    names = [
        f"{one.name} {format_gpu(one.quota_mgpu - one.held_mgpu)}" for one in takers[:MOST_NAMES]
    ]
    more = len(takers) - len(names)
    if more:
        names.append(ngettext("{n} more", "{n} more", more).format(n=more))
    return _("Guarantees that are unused now: {names}.").format(names=_(", ").join(names))
