"""What work reports of itself on its output, taken from the engines every few seconds and at its end."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from scheduler import models
from scheduler.engines.base import EngineError, EnginePhase, Observation, ReplicaKey
from scheduler.operations import progress
from scheduler.tick import engine_room
from scheduler.tick.observations import Observations

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=2)
_last: dict[str, datetime] = {}
#: Of each replica the number of the last report that this process knows to be written down.
_taken: dict[ReplicaKey, int] = {}


def take(*, observations: Observations, now: datetime) -> int:
    """Write down new reports: of what runs when it is due, of what has ended at once. Return how many."""
    last = _last.get("taken")
    is_due = last is None or not timedelta(0) <= now - last < EVERY
    if is_due:
        _last["taken"] = now
    count = 0
    for key, seen in observations.by_key.items():
        if is_due or seen.phase in (EnginePhase.EXITED, EnginePhase.LOST):
            count += _take_one(key, seen, observations.engine_of[key])
    for key in [key for key in _taken if key not in observations.by_key]:
        del _taken[key]
    return count


def _take_one(key: ReplicaKey, seen: Observation, engine: str) -> int:
    try:
        found = engine_room.engine(engine).read_progress(key, after=_taken.get(key, 0))
        if found and key not in _taken:
            written = _written(key, seen.workload_id)
            found = tuple(each for each in found if each.number > written)
    except (EngineError, OSError, ValueError):
        log.warning("progress.unreadable", extra={"key": str(key)}, exc_info=True)
        return 0
    if not found:
        return 0
    if not models.Workload.objects.filter(pk=seen.workload_id).exists():
        _taken[key] = found[-1].number
        return 0
    progress.keep(
        workload_id=seen.workload_id,
        reports=[
            progress.Report(
                at=each.at,
                step=each.step,
                total=each.total,
                epoch=each.epoch,
                metrics=each.metrics,
            )
            for each in found
        ],
        source=str(key),
        number=found[-1].number,
    )
    _taken[key] = found[-1].number
    return len(found)


def _written(key: ReplicaKey, workload_id: int) -> int:
    """Return the number of the last report of a replica that is in the tables."""
    row = models.WorkloadProgress.objects.filter(workload_id=workload_id).first()
    return 0 if row is None else int(row.taken.get(str(key), 0))
