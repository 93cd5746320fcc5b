"""The facts behind idle hours and guarantees, one by one: what samples said, what was in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from scheduler import models
from scheduler.queries.usage_facts import (
    CHUNK,
    Period,
    UsageFilter,
    activity_rows,
    guarantee_rows,
)
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """An amount that was so for a time. ``to_us`` None: it still is."""

    id: int
    what: str
    project_id: int
    project: str
    department_id: int
    department: str
    pool: str
    workload_id: int
    workload: str
    mgpu: int
    from_us: int
    to_us: int | None

    def inside(self, period: Period) -> int:
        """Return its milli-GPU-microseconds inside a period."""
        until_us = period.now_us if self.to_us is None else self.to_us
        return self.mgpu * max(0, min(until_us, period.to_us) - max(self.from_us, period.from_us))


def stream_facts(
    *, behind: str, visible: Visibility, wanted: UsageFilter, period: Period, after: int = 0
) -> Iterator[Fact]:
    """Yield what is ``behind`` a figure ("activity" or "guarantee"), with ids above ``after``."""
    if behind == "activity":
        seen = activity_rows(visible=visible, wanted=wanted, period=period)
        return _read_activity(seen.filter(id__gt=after))
    held = guarantee_rows(visible=visible, wanted=wanted, period=period)
    return _read_guarantees(held.filter(id__gt=after, project__isnull=False, quota_mgpu__gt=0))


def count_facts(*, behind: str, visible: Visibility, wanted: UsageFilter, period: Period) -> int:
    """Return how many there are."""
    if behind == "activity":
        return activity_rows(visible=visible, wanted=wanted, period=period).count()
    held = guarantee_rows(visible=visible, wanted=wanted, period=period)
    return held.filter(project__isnull=False, quota_mgpu__gt=0).count()


_NAMES = tuple(Fact.__dataclass_fields__)
_HELD = "replica__allocation__"
_ACTIVITY = (
    "id",
    "idle",
    f"{_HELD}project_id",
    f"{_HELD}project__name",
    f"{_HELD}department_id",
    f"{_HELD}department__name",
    f"{_HELD}pool__name",
    f"{_HELD}workload_id",
    f"{_HELD}workload__name",
    f"{_HELD}mgpu",
    "from_us",
    "to_us",
    f"{_HELD}from_us",
    f"{_HELD}to_us",
)
_GUARANTEE = (
    "id",
    "project_id",
    "project__name",
    "department_id",
    "department__name",
    "pool__name",
    "quota_mgpu",
    "from_us",
    "to_us",
)


def _read_activity(rows: QuerySet[models.ActivityInterval]) -> Iterator[Fact]:
    """Yield rows as facts, cut to what their replica held."""
    for row in rows.order_by("id").values_list(*_ACTIVITY).iterator(chunk_size=CHUNK):
        told = dict(zip(_NAMES, row[:12], strict=True))
        told["what"] = "idle" if row[1] else "active"
        told["from_us"] = max(row[10], row[12])
        told["to_us"] = row[11] if row[13] is None else min(row[11], row[13])
        yield Fact(**told)


def _read_guarantees(rows: QuerySet[models.QuotaHistory]) -> Iterator[Fact]:
    """Yield rows as facts."""
    for row in rows.order_by("id").values_list(*_GUARANTEE).iterator(chunk_size=CHUNK):
        yield Fact(
            id=row[0],
            what="guaranteed",
            project_id=row[1] or 0,
            project=row[2],
            department_id=row[3],
            department=row[4],
            pool=row[5],
            workload_id=0,
            workload="",
            mgpu=row[6],
            from_us=row[7],
            to_us=row[8],
        )
