"""How well guarantees were kept, by project and pool: waits, interruptions, lost work, out of the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, Q

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.promise import Asked, Kept, Room, judge, within
from scheduler.core.usage import Step
from scheduler.core.vocabulary import Rule
from scheduler.queries.usage import QueueKey
from scheduler.queries.usage_facts import CHUNK, Period, UsageFilter, guarantees, hours_of
from scheduler.queries.visibility import SYSTEM, Visibility
from scheduler.queries.waits import read_wait_spans

#: Ends that a queue does not choose and that another queue or workload causes.
TAKEN = (Rule.RECLAIM.value, Rule.PREEMPT.value)


@dataclass(slots=True, kw_only=True)
class Promise:
    """One project in one pool, within the department of its time."""

    kept: Kept = field(default_factory=Kept)
    #: Starts that were taken from it, and that it took; one workload is interrupted once a start.
    suffered: int = 0
    caused: int = 0
    #: Milli-GPU-microseconds of work that had not been saved when it was asked to go.
    lost: int = 0
    #: Milli-GPU-microseconds that were asked for and waited for, entitled or not.
    waited: int = 0


def read_promises(
    *, visible: Visibility, wanted: UsageFilter, period: Period
) -> dict[QueueKey, Promise]:
    """Return how the guarantees of a caller's projects were kept in a period.

    A request withdrawn by deleting it is not known any more. Work filters are not applied.
    """
    unserved = list(_unserved(visible, wanted, period))
    requests = dict(_requests(visible, wanted, period, unserved))
    first_us = min(
        (one.asked_us for ones in requests.values() for one in ones), default=period.from_us
    )
    whole = Period(from_us=min(first_us, period.from_us), to_us=period.to_us, now_us=period.now_us)
    held = _held(whole)
    quotas: dict[tuple[int | None, int, int], list[Step]] = defaultdict(list)
    # A department's guarantee limits its projects', whoever asks.
    for one in guarantees(visible=SYSTEM, wanted=UsageFilter(), period=whole):
        quotas[(one.project_id, one.department_id, one.pool_id)].append(one.step)
    of_department: dict[tuple[int, int], list[Step]] = defaultdict(list)
    for key, steps in held.items():
        of_department[key.department_id, key.pool_id] += within(
            held=steps, guaranteed=quotas[key.project_id, key.department_id, key.pool_id]
        )
    found: dict[QueueKey, Promise] = {}
    for key, ones in requests.items():
        rooms = [
            Room(held=held[key], guaranteed=quotas[key.project_id, key.department_id, key.pool_id])
        ]
        department = (key.department_id, key.pool_id)
        if quotas[(None, *department)]:
            rooms.append(
                Room(held=of_department[department], guaranteed=quotas[(None, *department)])
            )
        kept = judge(requests=ones, rooms=rooms, period=(period.from_us, period.to_us))
        found[key] = Promise(kept=kept)
    _add_interruptions(found, visible, wanted, period)
    _add_waits(found, visible, wanted, period, unserved)
    return found


def _requests(
    visible: Visibility,
    wanted: UsageFilter,
    period: Period,
    unserved: Iterable[tuple[QueueKey, Asked]],
) -> Iterator[tuple[QueueKey, list[Asked]]]:
    """Yield what ran in the period or waited in it, by queue."""
    scope = hours_of(visible) & wanted.condition()
    by_queue: dict[QueueKey, list[Asked]] = defaultdict(list)
    rows = models.AllocationInterval.objects.filter(
        scope, from_us__lt=period.to_us, asked_us__isnull=False
    ).filter(Q(running_us__gte=period.from_us) | Q(from_us__gt=period.from_us))
    starts: dict[tuple[int, int], tuple[QueueKey, list[tuple[Any, ...]]]] = {}
    for row in (
        rows.order_by("id")
        .values_list(
            "workload_id",
            "attempt",
            "project_id",
            "department_id",
            "pool_id",
            "mgpu",
            "asked_us",
            "from_us",
            "running_us",
        )
        .iterator(chunk_size=CHUNK)
    ):
        start = starts.setdefault(row[:2], (QueueKey(*row[2:5]), []))
        start[1].append(row[5:])
    for key, parts in starts.values():
        ran = [running for *_, running in parts if running is not None]
        by_queue[key].append(
            Asked(
                mgpu=sum(part[0] for part in parts),
                asked_us=min(part[1] for part in parts),
                until_us=min(part[2] for part in parts),
                running_us=max(ran) if len(ran) == len(parts) else None,
            )
        )
    for key, one in unserved:
        by_queue[key].append(one)
    yield from by_queue.items()


def _unserved(
    visible: Visibility, wanted: UsageFilter, period: Period
) -> Iterator[tuple[QueueKey, Asked]]:
    """Yield waits that did not end in a booking: they go on, or were given up."""
    pools = models.NodePool.objects.order_by("id")
    if wanted.pool_ids:
        pools = pools.filter(pk__in=wanted.pool_ids)
    for pool in pools:
        held = list(
            models.AllocationInterval.objects.filter(
                visible.projects(prefix="project__"),
                Q(to_us__isnull=True) | Q(to_us__gt=period.from_us),
                pool=pool,
            ).values_list("workload_id", "from_us", "to_us")
        )
        begins = {(workload_id, from_us) for workload_id, from_us, _ in held}
        spans = [
            (workload_id, span)
            for workload_id, span in read_wait_spans(
                visible=visible, pool_id=pool.pk, start_us=period.from_us, held=held
            )
            if span[0] < period.to_us and (workload_id, span[1]) not in begins
        ]
        workloads = models.Workload.objects.select_related("project").in_bulk(
            {workload_id for workload_id, _ in spans}
        )
        for workload_id, (from_us, to_us_) in spans:
            workload = workloads[workload_id]
            queue = (workload.project_id, workload.project.department_id)
            if not _is_wanted(wanted, *queue) or not workload.request_mgpu:
                continue
            if to_us_ is None and workload.backing_off_until is not None:
                from_us = max(from_us, to_us(workload.backing_off_until))
            until_us = min(period.to_us, period.now_us) if to_us_ is None else to_us_
            yield (
                QueueKey(*queue, pool.pk),
                Asked(
                    mgpu=workload.min_replicas * workload.devices * workload.request_mgpu,
                    asked_us=min(from_us, until_us),
                    until_us=until_us,
                    running_us=None,
                    booked=to_us_ is not None,
                ),
            )


def _is_wanted(wanted: UsageFilter, project_id: int, department_id: int) -> bool:
    return (not wanted.project_ids or project_id in wanted.project_ids) and (
        not wanted.department_ids or department_id in wanted.department_ids
    )


def _held(period: Period) -> dict[QueueKey, list[Step]]:
    held: dict[QueueKey, list[Step]] = defaultdict(list)
    rows = models.AllocationInterval.objects.filter(period.overlapping())
    for *queue, mgpu, from_us, to_us_ in rows.values_list(
        "project_id", "department_id", "pool_id", "mgpu", "from_us", "to_us"
    ).iterator(chunk_size=CHUNK):
        until_us = period.now_us + 1 if to_us_ is None else to_us_
        held[QueueKey(*queue)].append((from_us, until_us, mgpu))
    return held


def _add_waits(
    found: dict[QueueKey, Promise],
    visible: Visibility,
    wanted: UsageFilter,
    period: Period,
    unserved: Iterable[tuple[QueueKey, Asked]],
) -> None:
    """Add what was waited for inside the period, up to now at most: [a, b) and [b, c) make [a, c)."""
    end_us = min(period.to_us, period.now_us)

    def add(key: QueueKey, mgpu: int, from_us: int, to_us_: int) -> None:
        length_us = min(to_us_, end_us) - max(from_us, period.from_us)
        if length_us > 0 and mgpu:
            found.setdefault(key, Promise()).waited += mgpu * length_us

    rows = models.AllocationInterval.objects.filter(
        hours_of(visible) & wanted.condition(),
        asked_us__lt=F("from_us"),
        from_us__gt=period.from_us,
    ).filter(asked_us__lt=end_us)
    columns = ("project_id", "department_id", "pool_id", "mgpu", "asked_us", "from_us")
    for *queue, mgpu, asked_us, from_us in rows.values_list(*columns).iterator(chunk_size=CHUNK):
        add(QueueKey(*queue), mgpu, asked_us, from_us)
    for key, one in unserved:
        add(key, one.mgpu, one.asked_us, one.until_us)


def _add_interruptions(
    found: dict[QueueKey, Promise], visible: Visibility, wanted: UsageFilter, period: Period
) -> None:
    """Count what ended in the period for another's sake, on both sides."""
    rows = models.AllocationInterval.objects.filter(
        ended_by__in=TAKEN, to_us__gte=period.from_us, to_us__lt=period.to_us
    )
    mine = rows.filter(hours_of(visible), wanted.condition())
    seen: set[tuple[int, int]] = set()
    for workload_id, attempt, *queue, mgpu, lost_us in mine.values_list(
        "workload_id", "attempt", "project_id", "department_id", "pool_id", "mgpu", "lost_us"
    ):
        promise = found.setdefault(QueueKey(*queue), Promise())
        promise.lost += mgpu * lost_us
        promise.suffered += (workload_id, attempt) not in seen
        seen.add((workload_id, attempt))
    taken = rows.filter(visible.projects(prefix="ended_for__"), ended_for__isnull=False)
    causes = taken.values_list(
        "workload_id", "attempt", "ended_for_id", "ended_for__department_id", "pool_id"
    )
    for _workload_id, _attempt, *queue in causes.distinct():
        if _is_wanted(wanted, queue[0], queue[1]):
            found.setdefault(QueueKey(*queue), Promise()).caused += 1
