"""The ledger's rows as they are read: what was held, measured and guaranteed in a period."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.core import instants
from scheduler.core.usage import PRICE_PARTS, Prices, Step
from scheduler.queries.visibility import Visibility

#: Rows that are in memory at a time while a table is read through.
CHUNK = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """Which hours are asked for; an empty set asks for all that the caller sees."""

    department_ids: frozenset[int] = frozenset()
    project_ids: frozenset[int] = frozenset()
    pool_ids: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    workload_ids: frozenset[int] = frozenset()
    users: frozenset[str] = frozenset()

    @property
    def parts_of_queues(self) -> bool:
        """Test whether other work of the same projects is left out."""
        return bool(self.kinds or self.workload_ids or self.users)

    def condition(self) -> Q:
        """Return the filter on rows that name a department, a project and a pool."""
        condition = Q()
        for name, ids in (
            ("department_id", self.department_ids),
            ("project_id", self.project_ids),
            ("pool_id", self.pool_ids),
        ):
            if ids:
                condition &= Q(**{f"{name}__in": ids})
        return condition

    def of_work(self) -> Q:
        """Return the filter on rows of single pieces of work."""
        condition = Q()
        for name, values in (
            ("kind", self.kinds),
            ("workload_id", self.workload_ids),
            ("workload__submitted_by", self.users),
        ):
            if values:
                condition &= Q(**{f"{name}__in": values})
        return condition


EVERYTHING = UsageFilter()


class WorkKey(NamedTuple):
    """One workload within the department of its time."""

    workload_id: int
    user: str
    kind: str
    project_id: int
    department_id: int
    pool_id: int


class Held(NamedTuple):
    """One allocation interval; an open one ends now."""

    work: WorkKey
    step: Step
    cpu_milli: int
    memory_mib: int
    prices: Prices


class Measured(NamedTuple):
    """One interval in which samples agreed, inside its replica's allocation."""

    work: WorkKey
    idle: bool
    step: Step
    prices: Prices


class Used(NamedTuple):
    """CPU and memory that one replica used in a part of an hour."""

    work: WorkKey
    from_us: int
    to_us: int
    cpu_used: int
    memory_used: int


class Guaranteed(NamedTuple):
    """A guarantee that was in force; ``project_id`` None: the department's own."""

    project_id: int | None
    department_id: int
    pool_id: int
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What is read: [from_us, to_us), in which open intervals reach to ``now_us``."""

    from_us: int
    to_us: int
    now_us: int

    def overlapping(self, prefix: str = "") -> Q:
        """Return the filter on intervals that have a part in the period."""
        start = Q(**{f"{prefix}from_us__lt": self.to_us})
        open_or_later = Q(**{f"{prefix}to_us__isnull": True}) | Q(
            **{f"{prefix}to_us__gt": self.from_us}
        )
        return start & open_or_later


def hours_of(visible: Visibility) -> Q:
    """Return the filter on rows of the ledger: hours belong to the department of their time."""
    condition = Q()
    if not visible.cluster:
        condition = Q(department_id__in=visible.department_ids) | Q(
            project_id__in=visible.project_ids
        )
    if not visible.scratch:
        condition &= Q(department__scratch=False)
    return condition


def allocation_rows(
    *, visible: Visibility, wanted: UsageFilter, period: Period
) -> QuerySet[models.AllocationInterval]:
    """Return the allocation intervals with a part in the period."""
    return models.AllocationInterval.objects.filter(
        hours_of(visible), wanted.condition(), wanted.of_work(), period.overlapping()
    )


def allocations(*, visible: Visibility, wanted: UsageFilter, period: Period) -> Iterator[Held]:
    """Yield what was held in the period, in no order."""
    rows = allocation_rows(visible=visible, wanted=wanted, period=period)
    price_book = PriceBook()
    for row in rows.values_list(
        "workload_id",
        "workload__submitted_by",
        "kind",
        "project_id",
        "department_id",
        "pool_id",
        "gpu_models",
        "mgpu",
        "cpu_milli",
        "memory_mib",
        "from_us",
        "to_us",
    ).iterator(chunk_size=CHUNK):
        until_us = period.now_us if row[11] is None else row[11]
        yield Held(
            work=WorkKey(*row[:6]),
            step=(row[10], until_us, row[7]),
            cpu_milli=row[8],
            memory_mib=row[9],
            prices=price_book.prices(gpu_models=row[6]),
        )


def activity_rows(
    *, visible: Visibility, wanted: UsageFilter, period: Period
) -> QuerySet[models.ActivityInterval]:
    """Return the intervals of activity with a part in the period."""
    return models.ActivityInterval.objects.filter(
        from_us__lt=period.to_us, to_us__gt=period.from_us
    ).filter(_of_allocation(hours_of(visible) & wanted.condition() & wanted.of_work()))


def guarantee_rows(
    *, visible: Visibility, wanted: UsageFilter, period: Period
) -> QuerySet[models.QuotaHistory]:
    """Return the guarantees in force in the period: those of projects and of departments."""
    return models.QuotaHistory.objects.filter(
        hours_of(visible), wanted.condition(), period.overlapping()
    )


def activity(*, visible: Visibility, wanted: UsageFilter, period: Period) -> Iterator[Measured]:
    """Yield what was idle or active in the period, cut to what its replica held."""
    rows = activity_rows(visible=visible, wanted=wanted, period=period)
    price_book = PriceBook()
    held = "replica__allocation__"
    for row in rows.values_list(
        f"{held}workload_id",
        "replica__workload__submitted_by",
        f"{held}kind",
        f"{held}project_id",
        f"{held}department_id",
        f"{held}pool_id",
        "idle",
        f"{held}gpu_models",
        f"{held}mgpu",
        "from_us",
        "to_us",
        f"{held}from_us",
        f"{held}to_us",
    ).iterator(chunk_size=CHUNK):
        begin = max(row[9], row[11])
        end = row[10] if row[12] is None else min(row[10], row[12])
        if begin < end:
            yield Measured(
                work=WorkKey(*row[:6]),
                idle=row[6],
                step=(begin, end, row[8]),
                prices=price_book.prices(gpu_models=row[7]),
            )


def compute_use(*, visible: Visibility, wanted: UsageFilter, period: Period) -> Iterator[Used]:
    """Yield the CPU and memory that were used in the period, as far as they were measured."""
    rows = models.ComputeUse.objects.filter(
        from_us__lt=period.to_us, to_us__gt=period.from_us
    ).filter(_of_allocation(hours_of(visible) & wanted.condition() & wanted.of_work()))
    held = "replica__allocation__"
    for row in rows.values_list(
        f"{held}workload_id",
        "replica__workload__submitted_by",
        f"{held}kind",
        f"{held}project_id",
        f"{held}department_id",
        f"{held}pool_id",
        "from_us",
        "to_us",
        "cpu_used",
        "memory_used",
    ).iterator(chunk_size=CHUNK):
        yield Used(WorkKey(*row[:6]), *row[6:])


def guarantees(*, visible: Visibility, wanted: UsageFilter, period: Period) -> Iterator[Guaranteed]:
    """Yield the guarantees in force in the period: those of projects and of departments."""
    rows = guarantee_rows(visible=visible, wanted=wanted, period=period).values_list(
        "project_id", "department_id", "pool_id", "quota_mgpu", "from_us", "to_us"
    )
    for project_id, department_id, pool_id, quota_mgpu, from_us, to_us in rows.iterator(
        chunk_size=CHUNK
    ):
        until_us = period.now_us if to_us is None else to_us
        yield Guaranteed(project_id, department_id, pool_id, (from_us, until_us, quota_mgpu))


def _of_allocation(condition: Q) -> Q:
    """Return a filter on allocation intervals as one on activity."""
    moved = Q(_connector=condition.connector, _negated=condition.negated)
    for child in condition.children:
        if isinstance(child, Q):
            moved.children.append(_of_allocation(child))
        elif isinstance(child, tuple):
            moved.children.append((f"replica__allocation__{child[0]}", child[1]))
    return moved


class PriceBook:
    """The prices of GPU models over time. One query."""

    def __init__(self) -> None:
        by_model: dict[str, list[tuple[int, int]]] = {}
        for price in models.GpuPrice.objects.order_by("from_at"):
            parts = int(price.price_per_hour * PRICE_PARTS)
            by_model.setdefault(price.gpu_model, []).append((instants.to_us(price.from_at), parts))
        self._by_model = by_model
        self._found: dict[tuple[str, ...], Prices] = {}

    def prices(self, *, gpu_models: list[str]) -> Prices:
        """Return what a GPU hour costs over time on devices of these models, their mean."""
        key = tuple(gpu_models)
        if key not in self._found:
            self._found[key] = self._mean([self._of_model(name) for name in key or ("",)])
        return self._found[key]

    def _of_model(self, model: str) -> list[tuple[int, int]]:
        """Return a model's prices; before its first one the default ones are in force."""
        own = self._by_model.get(model, []) if model else []
        default = self._by_model.get("", [])
        if not own:
            return default
        return [price for price in default if price[0] < own[0][0]] + own

    @staticmethod
    def _mean(lists: list[list[tuple[int, int]]]) -> Prices:
        if len(lists) == 1:
            return tuple(lists[0])
        times = sorted({since for prices in lists for since, _ in prices})
        return tuple(
            (at, sum(_price_at(prices, at) for prices in lists) // len(lists)) for at in times
        )


def _price_at(prices: list[tuple[int, int]], at: int) -> int:
    return next((price for since, price in reversed(prices) if since <= at), 0)
