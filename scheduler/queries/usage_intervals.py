"""The allocation intervals behind a figure, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from scheduler import models
from scheduler.queries.usage_facts import CHUNK, Period, UsageFilter, allocation_rows
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What one replica held, and when. ``to_us`` None: it still does."""

    id: int
    workload_id: int
    workload: str
    attempt: int
    user: str
    kind: str
    project_id: int
    project: str
    department_id: int
    department: str
    pool: str
    node: str
    devices: tuple[int, ...]
    mgpu: int
    cpu_milli: int
    memory_mib: int
    preemptible: bool
    from_us: int
    to_us: int | None
    #: Since when it was waited for; None: not known.
    asked_us: int | None

    @property
    def waited_us(self) -> int | None:
        """Return how long it was waited for before it was held: no part of any hours."""
        return None if self.asked_us is None else max(0, self.from_us - self.asked_us)

    def inside(self, period: Period) -> int:
        """Return its milli-GPU-microseconds inside a period."""
        until_us = period.now_us if self.to_us is None else self.to_us
        return self.mgpu * max(0, min(until_us, period.to_us) - max(self.from_us, period.from_us))


_FIELDS = (
    "id",
    "workload_id",
    "workload__name",
    "attempt",
    "workload__submitted_by",
    "kind",
    "project_id",
    "project__name",
    "department_id",
    "department__name",
    "pool__name",
    "node__name",
    "devices",
    "mgpu",
    "cpu_milli",
    "memory_mib",
    "preemptible",
    "from_us",
    "to_us",
    "asked_us",
)
_NAMES = tuple(Interval.__dataclass_fields__)


def stream_intervals(
    *, visible: Visibility, wanted: UsageFilter, period: Period
) -> Iterator[Interval]:
    """Yield all intervals with a part in the period, in the order in which they began to be held."""
    rows = _rows(visible, wanted, period).order_by("id")
    for values in rows.values_list(*_FIELDS).iterator(chunk_size=CHUNK):
        yield _interval(values)


def list_intervals(
    *, visible: Visibility, wanted: UsageFilter, period: Period, after: int = 0, limit: int = 100
) -> tuple[list[Interval], int]:
    """Return a page of the intervals with ids above ``after``, and how many there are in all."""
    rows = _rows(visible, wanted, period)
    page = rows.filter(id__gt=after).order_by("id").values_list(*_FIELDS)[:limit]
    return [_interval(values) for values in page], rows.count()


def _rows(
    visible: Visibility, wanted: UsageFilter, period: Period
) -> QuerySet[models.AllocationInterval]:
    return allocation_rows(visible=visible, wanted=wanted, period=period)


def _interval(values: tuple[object, ...]) -> Interval:
    named = dict(zip(_NAMES, values, strict=True))
    named["devices"] = tuple(named["devices"])  # type: ignore[arg-type]
    return Interval(**named)  # type: ignore[arg-type]
