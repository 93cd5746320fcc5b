"""Lists: one manner of paging for all. ``after`` is what the page before gave as ``next``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Generic, TypeVar

from ninja import Schema
from pydantic import AfterValidator, BeforeValidator, Field

from scheduler.core.instants import FIRST_YEAR, LAST_YEAR

Item = TypeVar("Item")
MOST = 500


class Page(Schema, Generic[Item]):
    """A part of a list. ``next`` is empty on the last page; ``total`` where it is counted."""

    items: list[Item]
    next: str | None = None
    total: int | None = None


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.IGNORECASE)


def _written_out(value: object) -> object:
    """Take an instant only as the document says: with its time of day and its offset."""
    if isinstance(value, str) and not _INSTANT.fullmatch(value):
        raise ValueError("Write an instant as 2026-11-30T14:05:00Z.")
    if not isinstance(value, str | datetime):
        raise ValueError("Write an instant as text: 2026-11-30T14:05:00Z.")
    return value


def _tellable(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"Write an instant in the years {FIRST_YEAR} to {LAST_YEAR}.")
    return value


Instant = Annotated[datetime, BeforeValidator(_written_out), AfterValidator(_tellable)]
Id = Annotated[int, Field(ge=0, le=2**62)]


def cut(
    rows: Sequence[Item], *, after: int | None, limit: int, key: Callable[[Item], int]
) -> tuple[list[Item], str | None]:
    """Return one page of a list that is there whole, by position of the item whose key is ``after``."""
    start = 0
    if after is not None:
        start = next((at + 1 for at, row in enumerate(rows) if key(row) == after), len(rows))
    found = list(rows[start : start + limit])
    more = start + limit < len(rows)
    return found, str(key(found[-1])) if found and more else None
