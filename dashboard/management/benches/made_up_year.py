"""A made-up year for benchmarks: 200 projects, a million intervals, written past the operations.

The same figures each time. Rows go in as plain SQL; nothing but a benchmark writes tables like this.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import cast

from django.apps import apps
from django.db import connection, models, transaction

from scheduler.core.instants import from_us, to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.operations import nodes, quotas, units
from scheduler.operations.authority import SYSTEM

DEPARTMENTS, PROJECTS_EACH = 20, 10
NODES, DEVICES = 40, 8
WORKLOADS_EACH, ATTEMPTS = 25, 200
BATCH = 20_000
HOUR_US = 3_600_000_000


def make_year(*, begin: datetime, end: datetime) -> dict[str, float]:
    """Write it; return how many intervals there are."""
    rng = random.Random(11)
    with transaction.atomic():
        pool_id, node_ids = _make_nodes(begin)
        apps.get_model("scheduler", "GpuPrice").objects.create(
            price_per_hour=Decimal("74"), from_at=begin
        )
        projects = _make_projects(pool_id, begin)
        _change_quotas(rng, pool_id, projects, begin, end)
    with transaction.atomic():
        count = _make_work(rng, pool_id, node_ids, projects, (to_us(begin), to_us(end)))
    return {"intervals": count, "activity": count}


def _make_nodes(at: datetime) -> tuple[int, list[int]]:
    pool = nodes.create_pool(name="bench", authority=SYSTEM, now=at)
    device = nodes.DeviceFacts(model="H", memory_mib=81_920, virtual=True)
    facts = [
        nodes.NodeFacts(name=f"node-{number:02}", devices=[device] * DEVICES, engine="fake")
        for number in range(NODES)
    ]
    made = [
        nodes.register_node(pool_id=pool.pk, facts=one, authority=SYSTEM, now=at) for one in facts
    ]
    return pool.pk, [node.pk for node in made]


def _make_projects(pool_id: int, at: datetime) -> list[tuple[int, int]]:
    """Return (project id, department id)."""
    found = []
    for number in range(DEPARTMENTS):
        department = units.create_department(name=f"d{number}", authority=SYSTEM, now=at)
        quotas.set_department_quota(
            department_id=department.pk,
            pool_id=pool_id,
            values=QueueQuota(quota_mgpu=8000),
            authority=SYSTEM,
            now=at,
        )
        for project_number in range(PROJECTS_EACH):
            project = units.create_project(
                department_id=department.pk,
                name=f"p{number}-{project_number}",
                authority=SYSTEM,
                now=at,
            )
            found.append((project.pk, department.pk))
    return found


def _change_quotas(
    rng: random.Random,
    pool_id: int,
    projects: Sequence[tuple[int, int]],
    begin: datetime,
    end: datetime,
) -> None:
    """Set each project's guarantee once a month."""
    for project_id, _department_id in projects:
        at = begin
        while at < end:
            quotas.set_project_quota(
                project_id=project_id,
                pool_id=pool_id,
                values=QueueQuota(quota_mgpu=rng.randrange(200, 1500, 10)),
                authority=SYSTEM,
                now=at,
            )
            at = from_us(to_us(at) + rng.randrange(600, 900) * HOUR_US)


def _make_work(
    rng: random.Random,
    pool_id: int,
    node_ids: Sequence[int],
    projects: Sequence[tuple[int, int]],
    year: tuple[int, int],
) -> int:
    workloads = [
        (number + 1, project_id, department_id)
        for number, (project_id, department_id) in enumerate(
            one for one in projects for _ in range(WORKLOADS_EACH)
        )
    ]
    at = from_us(year[0])
    _insert("Workload", _workload_rows(workloads, pool_id, at))
    intervals = list(_intervals(rng, workloads, node_ids, year))
    _insert("Replica", _replica_rows(intervals, at))
    _insert("AllocationInterval", _allocation_rows(intervals, pool_id))
    _insert("ActivityInterval", _activity_rows(intervals, pool_id))
    _after_inserts()
    return len(intervals)


#: (id, workload, project, department, attempt, node, device, mGPU, from, to, idle until)
_Interval = tuple[int, int, int, int, int, int, int, int, int, int, int]


def _intervals(
    rng: random.Random,
    workloads: Sequence[tuple[int, int, int]],
    node_ids: Sequence[int],
    year: tuple[int, int],
) -> Iterator[_Interval]:
    starts = sorted(
        (rng.randrange(year[0], year[1] - 4 * HOUR_US), workload, attempt)
        for workload in workloads
        for attempt in range(1, ATTEMPTS + 1)
    )
    for number, (from_us_, (workload_id, project_id, department_id), attempt) in enumerate(starts):
        length_us = int(rng.expovariate(1 / 1.4) * HOUR_US) + 60_000_000
        until_us = min(from_us_ + length_us, year[1])
        yield (
            number + 1,
            workload_id,
            project_id,
            department_id,
            attempt,
            node_ids[number % len(node_ids)],
            number % DEVICES,
            (90, 250, 500, 1000)[rng.randrange(4)],
            from_us_,
            until_us,
            from_us_ + (until_us - from_us_) // 3,
        )


def _workload_rows(
    workloads: Sequence[tuple[int, int, int]], pool_id: int, at: datetime
) -> Iterator[dict[str, object]]:
    for workload_id, project_id, _department_id in workloads:
        yield {
            "id": workload_id,
            "project_id": project_id,
            "pool_id": pool_id,
            "name": f"work-{workload_id}",
            "kind": "training",
            "priority": 50,
            "preemptible": True,
            "phase": "completed",
            "phase_since": at,
            "submitted_at": at,
            "submitted_by": f"user-{workload_id % 50}",
        }


def _replica_rows(intervals: Iterable[_Interval], at: datetime) -> Iterator[dict[str, object]]:
    for number, workload_id, _p, _d, attempt, node_id, _device, mgpu, *_rest in intervals:
        yield {
            "id": number,
            "workload_id": workload_id,
            "attempt": attempt,
            "node_id": node_id,
            "phase": "ended",
            "mgpu": mgpu,
            "booked_at": at,
            "ended_at": at,
        }


def _allocation_rows(intervals: Iterable[_Interval], pool_id: int) -> Iterator[dict[str, object]]:
    for (
        number,
        workload,
        project,
        department,
        attempt,
        node,
        device,
        mgpu,
        begin,
        end,
        _,
    ) in intervals:
        yield {
            "id": number,
            "workload_id": workload,
            "replica_id": number,
            "attempt": attempt,
            "project_id": project,
            "department_id": department,
            "pool_id": pool_id,
            "node_id": node,
            "devices": [device],
            "gpu_models": ["L40S"],
            "mgpu": mgpu,
            "cpu_milli": 4000,
            "memory_mib": 16_384,
            "kind": "training",
            "preemptible": True,
            "from_us": begin,
            "to_us": end,
        }


def _activity_rows(intervals: Iterable[_Interval], pool_id: int) -> Iterator[dict[str, object]]:
    for number, _w, project, _d, _a, _n, _device, mgpu, begin, _end, idle_until in intervals:
        yield {
            "id": number,
            "replica_id": number,
            "project_id": project,
            "pool_id": pool_id,
            "idle": True,
            "mgpu": mgpu,
            "from_us": begin,
            "to_us": idle_until,
            "open": False,
        }


def _insert(model_name: str, rows: Iterable[dict[str, object]]) -> None:
    """Write rows, all with the same names; what they leave out has the field's default."""
    model = apps.get_model("scheduler", model_name)
    columns = list(model._meta.concrete_fields)
    template = [_prepared(field, field.get_default()) for field in columns]
    places = {field.attname: at for at, field in enumerate(columns)}
    batch: list[list[object]] = []
    for row in rows:
        line = template.copy()
        for name, value in row.items():
            at = places[name]
            line[at] = value if type(value) is int else _prepared(columns[at], value)
        batch.append(line)
        if len(batch) == BATCH:
            _write(model, columns, batch)
            batch = []
    if batch:
        _write(model, columns, batch)


def _prepared(field: models.Field[object, object], value: object) -> object:
    return field.get_db_prep_save(value, connection)


def _write(
    model: type[models.Model],
    columns: Sequence[models.Field[object, object]],
    batch: Sequence[Sequence[object]],
) -> None:
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in columns)
    table = quote(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in batch:
                    copy.write_row(row)
            return
        places = ", ".join("%s" for _ in columns)
        lines = cast("list[Sequence[int | str | None]]", batch)
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", lines)


def _after_inserts() -> None:
    """Bring what planners and sequences know up to date."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
