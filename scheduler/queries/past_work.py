"""Submissions to a pool in the last days as work for simulated time: what it asks for, how long it runs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.simulation import Work
from scheduler.core.snapshot import Request, Snapshot, Workload
from scheduler.core.vocabulary import Kind

#: The newest submissions that are played.
MOST_WORK = 2_000
HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The work of a stretch of time, in the order in which it comes."""

    work: tuple[Work, ...]
    #: Submissions before those, which are left out as there are too many.
    left_out: int
    #: Work that never ran, and for which the median of the others is taken.
    never_ran: int


def read_past(*, pool_id: int, since: datetime, until: datetime, frame: Snapshot) -> Past:
    """Return what was submitted, or still ran, between two instants. Three queries.

    How long it runs is what it held by the ledger, all of its starts together; what runs still, runs
    as long as it has so far. A service counts with its fewest replicas, one where that is none.
    """
    projects = {project.id for project in frame.projects}
    held = _held_us(pool_id, since, until)
    rows = models.Workload.objects.filter(
        Q(submitted_at__gte=since) | Q(pk__in=held), pool_id=pool_id, submitted_at__lt=until
    ).filter(project_id__in=projects)
    count = rows.count()
    chosen = sorted(rows.order_by("-submitted_at")[:MOST_WORK], key=lambda row: row.submitted_at)
    known = [held[row.pk] for row in chosen if held.get(row.pk)]
    median_us = int(statistics.median(known)) if known else HOUR_US
    work = [_work(row, held.get(row.pk) or median_us, since) for row in chosen]
    work.sort(key=lambda each: each.workload.submitted_at_us)
    return Past(
        work=tuple(work),
        left_out=max(0, count - MOST_WORK),
        never_ran=sum(not held.get(row.pk) for row in chosen),
    )


def _held_us(pool_id: int, since: datetime, until: datetime) -> dict[int, int]:
    """Return how long each workload held its place in the stretch: of several replicas the longest sum."""
    begin, end = to_us(since), to_us(until)
    rows = models.AllocationInterval.objects.filter(
        Q(to_us__isnull=True) | Q(to_us__gt=begin), pool_id=pool_id, from_us__lt=end
    ).values_list("workload_id", "attempt", "from_us", "to_us")
    by_attempt: dict[int, dict[int, int]] = defaultdict(dict)
    for workload_id, attempt, from_us, to_us_ in rows:
        span = min(end, end if to_us_ is None else to_us_) - max(begin, from_us)
        attempts = by_attempt[workload_id]
        attempts[attempt] = max(attempts.get(attempt, 0), span)
    return {key: sum(attempts.values()) for key, attempts in by_attempt.items()}


def _work(row: models.Workload, held_us: int, since: datetime) -> Work:
    replicas = max(1, row.min_replicas)
    has_gpu = row.request_mgpu or row.gpu_memory_mib
    workload = Workload(
        id=row.pk,
        name=row.name,
        project_id=row.project_id,
        kind=Kind(row.kind),
        priority=row.priority,
        preemptible=row.preemptible,
        request=Request(
            devices=row.devices if has_gpu else 0,
            request_mgpu=row.request_mgpu,
            gpu_memory_mib=row.gpu_memory_mib,
            cpu_milli=row.cpu_milli,
            memory_mib=row.memory_mib,
        ),
        submitted_at_us=to_us(max(row.submitted_at, since)),
        min_replicas=replicas,
        max_replicas=replicas,
        node_labels=row.node_labels,
        gpu_models=frozenset(row.gpu_models),
    )
    return Work(workload=workload, left_us=max(1, held_us))


def empty_frame(snapshot: Snapshot) -> Snapshot:
    """Return a pool's nodes and queues without work; what is cordoned or lost now takes part."""
    nodes = tuple(replace(node, schedulable=True) for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes, workloads=())


def copies(work: Sequence[Work]) -> list[Work]:
    """Return the same work for another run: a run changes what it plays."""
    return [Work(workload=each.workload, left_us=each.left_us) for each in work]
