"""Steps 1 and 2 of a tick: what engines know, and what of it becomes facts in the tables."""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import models
from scheduler.core import lifecycle
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.engines.base import (
    LIVE_PHASES,
    EndCause,
    EnginePhase,
    EngineUnreachable,
    Mark,
    Observation,
    ReplicaKey,
    Standing,
)
from scheduler.tick import engine_room, ledger, node_signs, settle, steady, traces
from scheduler.tick.observations import Observations, key_of

log = logging.getLogger(__name__)


#: Large fields of workloads that no fact of a replica touches.
_NOT_NEEDED = tuple(
    f"workload__{name}"
    for name in ("command", "env", "node_labels", "gpu_models", "reason", "progress")
)


def gather(*, now: datetime) -> Observations:
    """Ask every engine that has nodes. One that does not answer tells nothing, not "nothing runs"."""
    nodes = list(models.Node.objects.values_list("name", "engine"))
    names = sorted({engine for _, engine in nodes} | engine_room.named_by_settings())
    answered: set[str] = set()
    by_key: dict[ReplicaKey, Observation] = {}
    engine_of: dict[ReplicaKey, str] = {}
    for name in names:
        try:
            found = engine_room.engine(name).observe()
        except EngineUnreachable:
            log.warning("observe.engine.unreachable", extra={"engine": name}, exc_info=True)
            continue
        answered.add(name)
        for observation in found:
            by_key[observation.key] = observation
            engine_of[observation.key] = name
    standings = {
        name: engine_room.engine(engine).standing(name)
        for name, engine in nodes
        if engine in answered
    }
    return Observations(
        taken_at=now,
        answered=frozenset(answered),
        by_key=by_key,
        engine_of=engine_of,
        silent=frozenset(name for name, said in standings.items() if said is Standing.SILENT),
        gone=frozenset(name for name, said in standings.items() if said is Standing.GONE),
        joined=tuple(
            (name, node)
            for name in sorted(answered)
            for node in engine_room.engine(name).joined_nodes()
        ),
    )


def wait_for_change(*, timeout_s: float) -> bool:
    """Wait until a replica of this machine may have turned to another phase, at most so long."""
    return engine_room.engine("local").wait_for_change(timeout_s=timeout_s)


def record(*, observations: Observations, now: datetime) -> bool:
    """Write what was observed: running, ended, checkpoints, nodes seen. True where work changed."""
    with transaction.atomic():
        models.Cluster.objects.locked()
        node_signs.record(observations=observations, now=now)
        unchanged, workload_ids = steady.part(
            by_key=observations.by_key, answered=observations.answered
        )
        alive = list(
            models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
            .filter(workload_id__in=workload_ids)
            .select_related("node", "workload__project")
            .defer(*_NOT_NEEDED)
            .order_by("id")
        )
        ended: dict[int, list[lifecycle.Ended]] = defaultdict(list)
        workloads: dict[int, models.Workload] = {}
        changed = False
        for replica in alive:
            workload = workloads.setdefault(replica.workload_id, replica.workload)
            replica.workload = workload
            ending = _record_one(replica, observations, now)
            if ending is not None:
                ended[replica.workload_id].append(ending)
            changed |= ending is not None
        living = unchanged + _living(alive, observations)
        _record_signs_of_life(living, observations.taken_at)
        changed |= settle.settle_all(workloads, alive, ended, now)
        changed |= settle.carry_out_stops(now=now)
    return changed


def _record_one(
    replica: models.Replica, observations: Observations, now: datetime
) -> lifecycle.Ended | None:
    """Write what is known of one replica; return how it ended, if it did."""
    node = replica.node
    if not observations.is_told_of(engine=node.engine, node_name=node.name):
        return None
    seen = observations.by_key.get(key_of(replica))
    if seen is None:
        if replica.launched_at is None:
            return _end_unlaunched(replica, observations, now)
        if replica.launched_at >= observations.taken_at:
            return None  # launched after this look: it says nothing about it
        return _end(replica, at=replica.last_seen_at or replica.booked_at, seen=None, now=now)
    _record_marks(replica, seen)
    match seen.phase:
        case EnginePhase.EXITED | EnginePhase.LOST:
            at = seen.ended_at if seen.phase is EnginePhase.EXITED else seen.last_seen_at
            return _end(replica, at=at or seen.last_seen_at, seen=seen, now=now)
        case EnginePhase.RUNNING:
            _record_running(replica, seen)
        case EnginePhase.STARTING | EnginePhase.STOPPING:
            _record_seen(replica, seen)
    return None


def _end_unlaunched(
    replica: models.Replica, observations: Observations, now: datetime
) -> lifecycle.Ended | None:
    """End a booking that was withdrawn before the engine ever got it, or whose node is gone."""
    if replica.phase != ReplicaPhase.STOPPING:
        if replica.node.name not in observations.gone:
            return None
        replica.stop_code = "lost"
    return _end(replica, at=now, seen=None, now=now)


def _record_seen(replica: models.Replica, seen: Observation) -> None:
    """Write what is new of a replica that lives; that it was seen is written for all at once."""
    before = _facts(replica)
    replica.pid = seen.pid
    if replica.launched_at is None:
        replica.launched_at = seen.started_at or seen.last_seen_at
    if seen.phase is EnginePhase.STOPPING and replica.phase != ReplicaPhase.STOPPING:
        replica.phase = ReplicaPhase.STOPPING
        replica.stopping_at = seen.term_sent_at or seen.last_seen_at
        replica.stop_code = _code_of(seen) or replica.stop_code
    if seen.over_memory:
        _tell_over_memory(replica, seen, at=seen.last_seen_at)
    if seen.endpoint is not None:
        replica.host, replica.port = seen.endpoint.host, seen.endpoint.port
    if _facts(replica) != before:
        replica.save()


def _facts(replica: models.Replica) -> tuple[object, ...]:
    return (
        replica.phase,
        replica.pid,
        replica.launched_at,
        replica.running_at,
        replica.stopping_at,
        replica.stop_code,
        replica.host,
        replica.port,
    )


def _living(replicas: list[models.Replica], observations: Observations) -> list[int]:
    seen = {key.replica_id for key, o in observations.by_key.items() if o.phase in LIVE_PHASES}
    return [row.pk for row in replicas if row.pk in seen and row.phase != ReplicaPhase.ENDED]


def _record_signs_of_life(ids: list[int], at: datetime) -> None:
    models.Replica.objects.filter(pk__in=ids).update(last_seen_at=at)


def _record_running(replica: models.Replica, seen: Observation) -> None:
    before = _facts(replica)
    if replica.phase == ReplicaPhase.STARTING:
        replica.phase = ReplicaPhase.RUNNING
        told = seen.ready_at or seen.started_at or seen.last_seen_at
        replica.running_at = max(told, replica.booked_at)  # the machine's clock may be behind
        ledger.note_running(replica=replica)
        traces.tell_start(replica)
    if _facts(replica) != before:
        replica.save()
    _record_seen(replica, seen)


def _code_of(seen: Observation) -> str:
    return (
        {
            EndCause.OVER_MEMORY: "over_memory",
            EndCause.START_TIMEOUT: "not_ready",
            EndCause.LAUNCH_FAILED: "launch_refused",
        }.get(seen.cause, "")
        if seen.cause is not None
        else ""
    )


def _end(
    replica: models.Replica, *, at: datetime, seen: Observation | None, now: datetime
) -> lifecycle.Ended:
    """End a replica: free its devices, close its intervals, keep how it ended."""
    # An end before the booking is told by a clock that is behind: that it is over now is all it says.
    at = now if at < replica.booked_at else min(at, now)
    code = (_code_of(seen) if seen is not None else "") or replica.stop_code
    lost = seen is None or seen.phase is EnginePhase.LOST
    if seen is None and replica.launched_at is None:
        lost = False
    if seen is not None and seen.over_memory:
        _tell_over_memory(replica, seen, at=at)
    for holding in replica.holdings.select_related("device"):
        models.Device.objects.filter(pk=holding.device_id).update(
            allocated_mgpu=F("allocated_mgpu") - holding.mgpu,
            allocated_mib=F("allocated_mib") - holding.memory_mib,
        )
    replica.holdings.all().delete()
    ledger.close_allocation(replica=replica, at=at, code=code or ("lost" if lost else ""))
    replica.phase = ReplicaPhase.ENDED
    replica.ended_at = at
    replica.stop_code = code
    replica.utilization_permille = None
    replica.idle = None
    if seen is not None:
        replica.exit_code, replica.exit_signal = seen.exit_code, seen.signal
        replica.last_seen_at = seen.last_seen_at
        if seen.message:
            replica.workload.failure = {"message": seen.message}
    replica.save()
    ending = lifecycle.classify(
        exit_code=replica.exit_code, signal=replica.exit_signal, stop_code=code, lost=lost
    )
    _event(
        replica,
        at,
        "replica_ended",
        ending=ending.value,
        exit_code=replica.exit_code,
        signal=replica.exit_signal,
        ordinal=replica.ordinal,
        attempt=replica.attempt,
    )
    return lifecycle.Ended(ending=ending, exit_code=replica.exit_code)


def _record_marks(replica: models.Replica, seen: Observation) -> None:
    """Keep the last checkpoint mark, and compare what a resumed attempt says with it."""
    workload = replica.workload
    if seen.resumed is not None:
        _record_resumed(replica, workload, seen.resumed)
    mark = seen.checkpoint
    if mark is None or (workload.checkpoint_at is not None and mark.at <= workload.checkpoint_at):
        return
    first = not workload.checkpoint
    workload.checkpoint = _mark(mark)
    workload.checkpoint_at = mark.at
    workload.save(update_fields=["checkpoint", "checkpoint_at"])
    if first:
        _event(replica, mark.at, "first_checkpoint", **_mark(mark))


def _record_resumed(replica: models.Replica, workload: models.Workload, mark: Mark) -> None:
    said = _mark(mark)
    if workload.resumed.get("attempt") == replica.attempt:
        return
    names = ("step", "epoch", "elapsed_s", "best")
    known = [n for n in names if n in workload.checkpoint and n in said]
    differing = [n for n in known if workload.checkpoint[n] != said[n]]
    workload.resumed = {
        **said,
        "attempt": replica.attempt,
        "equal": bool(known) and not differing,
        "checkpoint": workload.checkpoint,
    }
    workload.save(update_fields=["resumed"])
    code = "resumed_equal" if workload.resumed["equal"] else "resumed_with_loss"
    _event(replica, mark.at, code, **said)


def _mark(mark: Mark) -> dict[str, object]:
    """Return a mark as JSON; decimals as the text that the workload wrote."""
    values: dict[str, object] = {
        "step": mark.step,
        "epoch": mark.epoch,
        "elapsed_s": None if mark.elapsed_s is None else str(mark.elapsed_s),
        "best": None if mark.best is None else str(mark.best),
        "size_bytes": mark.size_bytes,
    }
    return {name: value for name, value in values.items() if value is not None}


def _tell_over_memory(replica: models.Replica, seen: Observation, *, at: datetime) -> None:
    """Write once for each start that it took more memory than it was granted."""
    told = models.WorkloadEvent.objects.filter(
        workload_id=replica.workload_id, code="over_memory", params__replica=replica.pk
    )
    if not told.exists():
        peak_mib = seen.memory_peak_mib
        _event(replica, at, "over_memory", peak_mib=peak_mib, replica=replica.pk)


def _event(replica: models.Replica, at: datetime, event_code: str, /, **params: object) -> None:
    models.WorkloadEvent.objects.create(
        workload_id=replica.workload_id, at=at, code=event_code, params=params
    )
