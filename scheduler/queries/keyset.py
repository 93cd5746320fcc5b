"""Pages of a sorted table by where the page before ended: a deep page costs what the first does."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import TypeVar

from django.db.models import (
    CharField,
    DateTimeField,
    F,
    Func,
    IntegerField,
    Lookup,
    Model,
    Q,
    QuerySet,
    Value,
)
from django.db.models.lookups import GreaterThan, LessThan
from django.utils.dateparse import parse_datetime

Row = TypeVar("Row", bound=Model)
#: What a column of the database holds at most.
_MOST = 2**63 - 1
#: A row value.
_PAIR = "(%(expressions)s)"


def page(rows: QuerySet[Row], *, sort: str, after: str, limit: int) -> tuple[list[Row], str]:
    """Return at most ``limit`` rows sorted by a column ("-id": descending), and where they end. Two queries.

    ``after`` is where the page before ended; one that can't be read begins at the front. The end is
    empty on the last page. Which rows they are is read out of an index alone where one has the column.
    """
    descending, column = sort.startswith("-"), sort.removeprefix("-")
    sign = "-" if descending else ""
    mark = _read(after, rows.model._meta.get_field(column))
    narrow = rows if mark is None else rows.filter(_beyond(column, mark, descending=descending))
    order = [f"{sign}id"] if column == "id" else [f"{sign}{column}", f"{sign}id"]
    ends = list(narrow.order_by(*order).values_list(column, "pk")[: limit + 1])
    more, ends = len(ends) > limit, ends[:limit]
    by_id = {row.pk: row for row in rows.filter(pk__in=[pk for _value, pk in ends])}
    found = [by_id[pk] for _value, pk in ends if pk in by_id]
    return found, mark_of(*ends[-1]) if more else ""


def _beyond(column: str, mark: tuple[object, int], *, descending: bool) -> Q | Lookup[bool]:
    """Return the condition of being behind a mark: both columns compared at once, as an index is walked."""
    value, row_id = mark
    if column == "id":
        return Q(**{f"id__{'lt' if descending else 'gt'}": row_id})
    here = Func(F(column), F("id"), template=_PAIR, output_field=IntegerField())
    there = Func(Value(value), Value(row_id), template=_PAIR, output_field=IntegerField())
    return (LessThan if descending else GreaterThan)(here, there)


def mark_of(value: object, row_id: int) -> str:
    """Return where a page ends, as it stands in an address."""
    text = value.isoformat() if isinstance(value, datetime) else value
    packed = json.dumps([text, row_id], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read(after: str, field: object) -> tuple[object, int] | None:
    try:
        value, row_id = json.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
        if isinstance(field, DateTimeField):
            value = _instant(value)
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        return None
    if not _is_whole(row_id):
        return None
    if isinstance(field, IntegerField):
        return (value, row_id) if _is_whole(value) else None
    if isinstance(field, CharField):
        return (value, row_id) if isinstance(value, str) and "\0" not in value else None
    return None if value is None else (value, row_id)


def _is_whole(value: object) -> bool:
    return type(value) is int and abs(value) <= _MOST


def _instant(text: object) -> datetime | None:
    """Return an instant with its offset as UTC, in which every database takes it."""
    value = parse_datetime(text) if isinstance(text, str) else None
    return None if value is None or value.tzinfo is None else value.astimezone(UTC)
