"""Rows kept between ticks: what a row turns into is made again only where the row is another.

A row is told by every column that the database gives for it, before anything is made of that. So it
need not be known who wrote it: no writer has to say that something changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)
Value = TypeVar("Value")


class KeptRows(Generic[Row]):
    """Rows of one table as model objects, each made once for as long as its columns stay the same.

    The objects are shared by all who read them and must not be written to.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[object, tuple[tuple[object, ...], Row]] = {}

    def read(self, rows: QuerySet[Row]) -> list[Row]:
        """Return what ``rows`` gives now, in its order. One query. Rows that are gone are let go."""
        compiler = rows.query.get_compiler(rows.db)
        columns: list[tuple[object, ...]] = []
        for chunk in compiler.execute_sql(chunked_fetch=False):
            columns.extend(map(tuple, chunk))
        names = [each[0].target.attname for each in compiler.select]
        at = names.index(rows.model._meta.pk.attname)
        known = self._known
        fresh: dict[object, tuple[tuple[object, ...], Row]] = {}
        changed = []
        for row in columns:
            kept = known.get(row[at])
            if kept is not None and kept[0] == row:
                fresh[row[at]] = kept
            else:
                changed.append(row)
        made = compiler.results_iter(results=[changed])
        for row, values in zip(changed, made, strict=True):
            fresh[row[at]] = (row, rows.model.from_db(rows.db, names, values))
        self._known = fresh
        return [fresh[row[at]][1] for row in columns]


class KeptValues(Generic[Value]):
    """What is made of rows and values, each made again only where one of them is another."""

    __slots__ = ("_fresh", "_known")

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], Value]] = {}
        self._fresh: dict[int, tuple[tuple[object, ...], Value]] = {}

    def get(self, key: int, made_of: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """Return what ``make`` makes of ``made_of``: rows of ``KeptRows``, and plain values."""
        kept = self._known.get(key)
        if kept is None or not _are_same(kept[0], made_of):
            kept = (made_of, make())
        self._fresh[key] = kept
        return kept[1]

    def turn(self) -> None:
        """Let go what was not asked for since the last call."""
        self._known, self._fresh = self._fresh, {}


def _are_same(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    """Test whether nothing differs. Two objects of one row are not the same: their columns differ."""
    if len(first) != len(second):
        return False
    return all(
        one is other or (not isinstance(one, Model) and one == other)
        for one, other in zip(first, second, strict=True)
    )
