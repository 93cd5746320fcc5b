"""The metrics for Prometheus, collected when they are scraped. docs/metrics.md has each of them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import redis
from django.db import DatabaseError, connection
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from scheduler import events
from scheduler.queries import metrics as queries
from scheduler.queries.visibility import Visibility
from scheduler.telemetry import demand

log = logging.getLogger(__name__)

GPU = 1000
PERCENTS = (50, 95)
UNIT = ("pool", "department", "project")
OF_PROJECT = ("department", "project")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name without what Prometheus adds, its labels, and what it tells."""

    name: str
    labels: tuple[str, ...]
    about: str
    counts: bool = False

    @property
    def sample_name(self) -> str:
        """Return the name by which its samples are asked for."""
        return f"{self.name}_total" if self.counts else self.name


FAMILIES: dict[str, Family] = {
    one.name: one
    for one in (
        Family("tidegate_pool_gpus", ("pool",), "GPUs of healthy devices"),
        Family("tidegate_pool_gpus_held", ("pool",), "GPUs that work holds"),
        Family("tidegate_pool_nodes", ("pool", "state"), "nodes: there, lost"),
        Family("tidegate_gpus_held", UNIT, "GPUs that a project's work holds"),
        Family("tidegate_gpus_idle", UNIT, "of these, without activity"),
        Family("tidegate_gpus_guaranteed", UNIT, "guarantee"),
        Family("tidegate_gpus_limit", UNIT, "limit; a unit without one has no sample"),
        Family("tidegate_gpus_borrowed", UNIT, "held beyond the guarantee"),
        Family("tidegate_department_gpus_held", ("pool", "department"), "held by its projects"),
        Family("tidegate_department_gpus_guaranteed", ("pool", "department"), "guarantee"),
        Family("tidegate_department_gpus_borrowed", ("pool", "department"), "held beyond it"),
        Family("tidegate_workloads", (*UNIT, "phase"), "workloads that have not ended"),
        Family("tidegate_workloads_waiting", (*UNIT, "reason"), "waiting workloads by reason"),
        Family("tidegate_longest_wait_seconds", UNIT, "how long what waits longest has waited"),
        Family(
            "tidegate_decisions",
            (*UNIT, "verb"),
            "decisions since this process was first scraped",
            counts=True,
        ),
        Family("tidegate_gateway_requests", OF_PROJECT, "requests served", counts=True),
        Family("tidegate_gateway_errors", OF_PROJECT, "of these, failed", counts=True),
        Family(
            "tidegate_gateway_tokens", (*OF_PROJECT, "direction"), "tokens in and out", counts=True
        ),
        Family("tidegate_gateway_in_flight", OF_PROJECT, "requests at a replica now"),
        Family("tidegate_gateway_waiting", OF_PROJECT, "requests that wait for a replica now"),
        Family(
            "tidegate_gateway_latency_seconds",
            (*OF_PROJECT, "until", "quantile"),
            "of the last five minutes, until the first and the last byte",
        ),
        Family("tidegate_gateways", (), "gateway processes that report"),
        Family("tidegate_cycles", (), "cycles of the scheduler", counts=True),
        Family("tidegate_cycle_seconds", (), "how long the last cycle took"),
        Family("tidegate_tick_age_seconds", (), "how long ago the last cycle ended"),
        Family("tidegate_redis_up", (), "1: Redis answers"),
        Family("tidegate_redis_ping_seconds", (), "how long it took to answer"),
        Family("tidegate_database_up", (), "1: the database answers"),
        Family("tidegate_database_query_seconds", (), "how long its shortest query took"),
    )
}


@dataclass(slots=True)
class _Decisions:
    """Counts that only rise while this process lives: rows that are deleted later stay counted.

    They begin at 0. Of rows that were there before, some are deleted by age: were they counted, the
    first value after a restart would lie a little below the last, and all of it be taken for new.
    """

    counts: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    last_id: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> dict[tuple[int, int, str], int]:
        """Return all that was counted so far; at first a 0 for each kind that was there before."""
        with self.lock:
            begins = self.last_id is None
            found, self.last_id = queries.count_decisions(after_id=self.last_id or 0)
            self.counts.update(dict.fromkeys(found, 0) if begins else found)
            return dict(self.counts)


_decisions = _Decisions()


class Collector:
    """Reads everything once for one scrape, as far as its reader sees it."""

    def __init__(self, *, visible: Visibility, now: datetime) -> None:
        self.visible = visible
        self.now = now
        self.families: dict[str, Metric] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have a sample. What can't be read is left out, and said as down."""
        database_up = self._database()
        redis_up = self._redis()
        if database_up:
            self._queues()
            self._tick()
            self._count_decisions()
            self._gateway()
            if redis_up:
                self._demand()
        yield from self.families.values()

    def _add(self, name: str, labels: Iterable[str], value: float) -> None:
        family = FAMILIES[name]
        made = self.families.get(name)
        if made is None:
            kind = CounterMetricFamily if family.counts else GaugeMetricFamily
            made = self.families[name] = kind(name, family.about, labels=family.labels)
        made.add_metric(list(labels), value)  # type: ignore[attr-defined]

    def _database(self) -> bool:
        began = time.monotonic()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except DatabaseError:
            log.warning("metrics.database.away", exc_info=True)
            self._add("tidegate_database_up", (), 0)
            return False
        self._add("tidegate_database_up", (), 1)
        self._add("tidegate_database_query_seconds", (), time.monotonic() - began)
        return True

    def _redis(self) -> bool:
        began = time.monotonic()
        try:
            events.client().ping()
        except redis.RedisError:
            log.warning("metrics.redis.away", exc_info=True)
            self._add("tidegate_redis_up", (), 0)
            return False
        self._add("tidegate_redis_up", (), 1)
        self._add("tidegate_redis_ping_seconds", (), time.monotonic() - began)
        return True

    def _queues(self) -> None:
        pools, queues = queries.read_queues(visible=self.visible, now=self.now)
        for pool in pools:
            self._add("tidegate_pool_gpus", (pool.pool,), pool.capacity_mgpu / GPU)
            self._add("tidegate_pool_gpus_held", (pool.pool,), pool.held_mgpu / GPU)
            self._add("tidegate_pool_nodes", (pool.pool, "there"), pool.nodes - pool.nodes_lost)
            self._add("tidegate_pool_nodes", (pool.pool, "lost"), pool.nodes_lost)
        for one in queues:
            if one.project:
                self._project(one)
            else:
                place = (one.pool, one.department)
                prefix = "tidegate_department_gpus"
                self._add(f"{prefix}_held", place, one.row.held_mgpu / GPU)
                self._add(f"{prefix}_guaranteed", place, one.row.quota_mgpu / GPU)
                self._add(f"{prefix}_borrowed", place, one.row.borrowed_mgpu / GPU)

    def _project(self, one: queries.QueueFigures) -> None:
        unit = (one.pool, one.department, one.project)
        self._add("tidegate_gpus_held", unit, one.row.held_mgpu / GPU)
        self._add("tidegate_gpus_idle", unit, one.row.idle_mgpu / GPU)
        self._add("tidegate_gpus_guaranteed", unit, one.row.quota_mgpu / GPU)
        self._add("tidegate_gpus_borrowed", unit, one.row.borrowed_mgpu / GPU)
        if one.row.limit_mgpu is not None:
            self._add("tidegate_gpus_limit", unit, one.row.limit_mgpu / GPU)
        self._add("tidegate_longest_wait_seconds", unit, one.longest_wait_s)
        for phase, count in sorted(one.phases.items()):
            self._add("tidegate_workloads", (*unit, phase), count)
        for reason, count in sorted(one.reasons.items()):
            self._add("tidegate_workloads_waiting", (*unit, reason), count)

    def _tick(self) -> None:
        tick = queries.read_tick(now=self.now)
        self._add("tidegate_cycles", (), tick.cycle)
        self._add("tidegate_cycle_seconds", (), tick.last_ms / 1000)
        if tick.age_s is not None:
            self._add("tidegate_tick_age_seconds", (), tick.age_s)

    def _count_decisions(self) -> None:
        projects, pools = queries.read_places(visible=self.visible)
        counted: Counter[tuple[str, str, str, str]] = Counter()
        for (project_id, pool_id, verb), count in _decisions.now().items():
            if project_id in projects and pool_id in pools:
                counted[pools[pool_id], *projects[project_id], verb] += count
        for labels, count in sorted(counted.items()):
            self._add("tidegate_decisions", labels, count)

    def _gateway(self) -> None:
        for one in queries.read_gateway(visible=self.visible):
            place = (one.department, one.project)
            self._add("tidegate_gateway_requests", place, one.requests)
            self._add("tidegate_gateway_errors", place, one.errors)
            self._add("tidegate_gateway_tokens", (*place, "in"), one.input_tokens)
            self._add("tidegate_gateway_tokens", (*place, "out"), one.output_tokens)
        latencies = queries.read_latencies(visible=self.visible, now=self.now, percents=PERCENTS)
        for told in latencies:
            for until, found in (("first_byte", told.first_ms), ("last_byte", told.whole_ms)):
                for percent, ms in found.items():
                    labels = (told.department, told.project, until, f"{percent / 100:g}")
                    self._add("tidegate_gateway_latency_seconds", labels, ms / 1000)

    def _demand(self) -> None:
        services = queries.read_services(visible=self.visible)
        try:
            now_s = int(self.now.timestamp())
            told = demand.read(client=events.client(), workload_ids=(), window_s=0, now_s=now_s)
        except redis.RedisError:
            log.warning("metrics.demand.away", exc_info=True)
            return
        in_flight: Counter[tuple[str, str]] = Counter()
        waiting: Counter[tuple[str, str]] = Counter()
        for workload_id, place in services.items():
            counts = told.services.get(workload_id, demand.Counts())
            in_flight[place] += counts.in_flight
            waiting[place] += counts.waiting
        for place in sorted(in_flight):
            self._add("tidegate_gateway_in_flight", place, in_flight[place])
            self._add("tidegate_gateway_waiting", place, waiting[place])
        if self.visible.cluster:
            self._add("tidegate_gateways", (), told.gateways)
