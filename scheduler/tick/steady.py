"""Steady work: what runs as it is written down. Told by a few columns, so that whole rows are read only
of the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from scheduler import models
from scheduler.core.vocabulary import Phase, ReplicaPhase
from scheduler.engines.base import EnginePhase, Observation, ReplicaKey


class _Row(NamedTuple):
    """What is read of each replica that has not ended, in the order of ``_COLUMNS``."""

    replica_id: int
    attempt: int
    phase: str
    pid: int | None
    launched_at: datetime | None
    host: str
    port: int | None
    engine: str
    workload_id: int
    workload_phase: str
    min_replicas: int
    checkpoint_at: datetime | None


_COLUMNS = (
    "pk",
    "attempt",
    "phase",
    "pid",
    "launched_at",
    "host",
    "port",
    "node__engine",
    "workload_id",
    "workload__phase",
    "workload__min_replicas",
    "workload__checkpoint_at",
)


def part(
    *, by_key: Mapping[ReplicaKey, Observation], answered: Collection[str]
) -> tuple[list[int], list[int]]:
    """Return the replicas of steady workloads, and the other workloads with replicas that have not ended.

    A workload is steady if it runs and as many replicas as it needs at least do, all of them seen as they
    are written down, with no mark that is not.
    """
    by_workload: dict[int, list[_Row]] = {}
    rows = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).order_by("id")
    for columns in rows.values_list(*_COLUMNS):
        row = _Row(*columns)
        by_workload.setdefault(row.workload_id, []).append(row)
    steady, others = [], []
    for workload_id, own in by_workload.items():
        first = own[0]
        runs = first.workload_phase == Phase.RUNNING and len(own) >= max(1, first.min_replicas)
        if runs and all(row.engine in answered and _is_as_written(row, by_key) for row in own):
            steady += [row.replica_id for row in own]
        else:
            others.append(workload_id)
    return steady, others


def _is_as_written(row: _Row, by_key: Mapping[ReplicaKey, Observation]) -> bool:
    """Test whether a replica runs, and the engine says nothing of it that is not written down."""
    seen = by_key.get(ReplicaKey(replica_id=row.replica_id, attempt=row.attempt))
    if seen is None or seen.phase is not EnginePhase.RUNNING or row.phase != ReplicaPhase.RUNNING:
        return False
    if row.launched_at is None or row.pid != seen.pid or seen.resumed is not None:
        return False
    endpoint, mark = seen.endpoint, seen.checkpoint
    if endpoint is not None and (endpoint.host, endpoint.port) != (row.host, row.port):
        return False
    return mark is None or (row.checkpoint_at is not None and mark.at <= row.checkpoint_at)
