"""Is the ledger sound: its rows against each other, against what runs, and its figures' identities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from django.db.models import F, Q

from scheduler import models
from scheduler.core import instants, usage
from scheduler.core.usage import DAY_US
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.queries import usage as usage_queries
from scheduler.queries.usage_facts import CHUNK
from scheduler.queries.visibility import SYSTEM

#: Days that are added up at a time.
DAYS_A_TIME = 31


def check_ledger(*, now_us: int) -> dict[str, list[str]]:
    """Return, by what was checked, what does not hold; every list is empty for a sound ledger."""
    return {name: list(check(now_us)) for name, check in CHECKS.items()}


def _whole_us(now_us: int) -> tuple[int, int]:
    """Return the first whole UTC day of the ledger and now."""
    tables = (models.AllocationInterval, models.QuotaHistory)
    firsts = [
        table.objects.order_by("from_us").values_list("from_us", flat=True).first()
        for table in tables
    ]
    first = min((found for found in firsts if found is not None), default=now_us)
    return first // DAY_US * DAY_US, now_us


def _open_and_ended(now_us: int) -> Iterator[str]:
    """What is held has an open interval, what has ended a closed one."""
    rows = models.AllocationInterval.objects.annotate(
        phase=F("replica__phase"), ended_at=F("replica__ended_at")
    )
    for row in rows.filter(to_us__isnull=True, replica__phase=ReplicaPhase.ENDED)[:CHUNK]:
        yield f"interval {row.pk} is open, but replica {row.replica_id} has ended"
    for row in rows.filter(to_us__isnull=False).exclude(replica__phase=ReplicaPhase.ENDED)[:CHUNK]:
        yield f"interval {row.pk} is closed, but replica {row.replica_id} still holds"
    without = models.Replica.objects.filter(allocation__isnull=True)
    for pk in without.values_list("pk", flat=True)[:CHUNK]:
        yield f"replica {pk} has no interval"
    for row in rows.filter(~Q(mgpu=F("replica__mgpu")))[:CHUNK]:
        yield f"interval {row.pk} says {row.mgpu} mGPU, replica {row.replica_id} says otherwise"


def _no_device_over_capacity(now_us: int) -> Iterator[str]:
    """At no instant was more than one GPU of a device held."""
    changes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    rows = models.AllocationInterval.objects.values_list(
        "node_id", "devices", "mgpu", "from_us", "to_us"
    )
    for node_id, devices, mgpu, from_us, to_us in rows.iterator(chunk_size=CHUNK):
        until_us = now_us if to_us is None else to_us
        for index in devices if until_us > from_us else ():
            changes[(node_id, index)].append((from_us, mgpu // len(devices)))
            changes[(node_id, index)].append((until_us, -(mgpu // len(devices))))
    for (node_id, index), moves in sorted(changes.items()):
        held = 0
        for at_us, change in sorted(moves):
            held += change
            if held > 1000:
                yield f"device {index} of node {node_id} held {held} mGPU at {_when(at_us)}"
                break


def _activity_inside(now_us: int) -> Iterator[str]:
    """Activity does not overlap itself."""
    rows = models.ActivityInterval.objects.order_by("replica_id", "from_us").values_list(
        "replica_id", "from_us", "to_us", "pk"
    )
    before: tuple[int, int] = (0, 0)
    for replica_id, from_us, to_us, pk in rows.iterator(chunk_size=CHUNK):
        if replica_id == before[0] and from_us < before[1]:
            yield f"activity {pk} of replica {replica_id} overlaps the one before"
        before = (replica_id, to_us)


def _guarantees_agree(now_us: int) -> Iterator[str]:
    """The guarantee in force in the ledger is that of the queue; none overlaps another."""
    held: dict[tuple[int | None, int, int], int] = {}
    until: dict[tuple[int | None, int, int], int] = {}
    rows = models.QuotaHistory.objects.order_by("from_us", "pk").values_list(
        "project_id", "department_id", "pool_id", "quota_mgpu", "from_us", "to_us"
    )
    for project_id, department_id, pool_id, quota_mgpu, from_us, to_us in rows:
        key: tuple[int | None, int, int] = (
            project_id,
            0 if project_id else department_id,
            pool_id,
        )
        if from_us < until.get(key, from_us):
            yield f"two guarantees of {_queue(key)} overlap at {_when(from_us)}"
        until[key] = 2**62 if to_us is None else to_us
        if to_us is None:
            held[key] = quota_mgpu
    for queue, quota_mgpu in _guarantees_now():
        told = held.get(queue, 0)
        if told != quota_mgpu:
            yield f"{_queue(queue)} is guaranteed {quota_mgpu} mGPU, its ledger says {told}"


def _guarantees_now() -> Iterator[tuple[tuple[int | None, int, int], int]]:
    projects = models.ProjectQuota.objects.filter(project__deleted_at__isnull=True)
    for project_id, pool_id, quota_mgpu in projects.values_list(
        "project_id", "pool_id", "quota_mgpu"
    ):
        yield (project_id, 0, pool_id), quota_mgpu
    departments = models.DepartmentQuota.objects.filter(department__deleted_at__isnull=True)
    for department_id, pool_id, quota_mgpu in departments.values_list(
        "department_id", "pool_id", "quota_mgpu"
    ):
        yield (None, department_id, pool_id), quota_mgpu


def _identities(now_us: int) -> Iterator[str]:
    """Every row's identities hold by day, and days add up to the whole."""
    first_us, end_us = _whole_us(now_us)
    for begin in range(first_us, end_us, DAYS_A_TIME * DAY_US):
        end = min(begin + DAYS_A_TIME * DAY_US, end_us)
        cuts = [*range(begin, end, DAY_US), end]
        by_day = _read(cuts, now_us)
        whole = _read([begin, end], now_us)
        for key, rows in sorted(by_day.items()):
            for day, row in zip(cuts, rows, strict=False):
                for problem in usage.problems(row=row):
                    yield f"project {key.project_id} on {_when(day)}: {problem} does not hold"
            if usage.sum_figures(rows=rows) != whole[key][0]:
                yield f"project {key.project_id} from {_when(begin)}: days don't add up"


def _read(cuts: Sequence[int], now_us: int) -> dict[usage_queries.QueueKey, usage_queries.Rows]:
    found = usage_queries.read_raw_usage(visible=SYSTEM, cuts=cuts, now_us=now_us)
    return found.queues


def _queue(key: tuple[int | None, int, int]) -> str:
    project_id, department_id, pool_id = key
    name = f"department {department_id}" if project_id is None else f"project {project_id}"
    return f"{name} in pool {pool_id}"


def _when(at_us: int) -> str:
    return instants.from_us(at_us).isoformat()


CHECKS: dict[str, Callable[[int], Iterator[str]]] = {
    "what is held has an open interval, what has ended a closed one": _open_and_ended,
    "no device was ever held beyond its capacity": _no_device_over_capacity,
    "activity does not overlap": _activity_inside,
    "guarantees agree with the queues and do not overlap": _guarantees_agree,
    "identities of every project by day, days add up": _identities,
}
