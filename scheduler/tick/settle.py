"""What becomes of workloads whose replicas started or ended, and the ends that people asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler import models
from scheduler.core import lifecycle
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.operations import notices


def settle_all(
    workloads: dict[int, models.Workload],
    replicas: Iterable[models.Replica],
    ended: dict[int, list[lifecycle.Ended]],
    now: datetime,
) -> bool:
    by_workload: dict[int, list[models.Replica]] = defaultdict(list)
    for replica in replicas:
        by_workload[replica.workload_id].append(replica)
    changed = False
    for workload_id, workload in workloads.items():
        alive = [r for r in by_workload[workload_id] if r.phase != ReplicaPhase.ENDED]
        if ended.get(workload_id):
            _settle(workload, ended[workload_id], alive, now)
            changed = True
        else:
            changed |= _note_running(workload, alive, now)
    return changed


def _settle(
    workload: models.Workload,
    ended: list[lifecycle.Ended],
    alive: list[models.Replica],
    now: datetime,
) -> None:
    outcome = lifecycle.settle(
        standing=lifecycle.Standing(
            kind=Kind(workload.kind),
            min_replicas=workload.min_replicas,
            stop_requested=workload.stop_requested,
            failures=workload.failures,
            max_attempts=workload.max_attempts,
        ),
        ended=ended,
        alive=[ReplicaPhase(r.phase) for r in alive],
    )
    failed = outcome.failures > workload.failures
    workload.failures = outcome.failures
    workload.exit_code = next((e.exit_code for e in ended if e.exit_code is not None), None)
    if outcome.end_the_rest:
        _stop_replicas(alive, code="gang", now=now)
    if outcome.pause_s:
        workload.backing_off_until = now + timedelta(seconds=outcome.pause_s)
    _enter(workload, outcome.phase, now)
    if failed:
        _say_failed(workload, outcome, ended, now)
    workload.generation += 1
    workload.save()


def _say_failed(
    workload: models.Workload,
    outcome: lifecycle.Outcome,
    ended: list[lifecycle.Ended],
    now: datetime,
) -> None:
    models.WorkloadEvent.objects.create(
        workload=workload,
        at=now,
        code="gave_up" if outcome.phase is Phase.FAILED else "failed_retrying",
        params={
            "failures": outcome.failures,
            "max_attempts": workload.max_attempts,
            "pause_s": outcome.pause_s,
            "exit_code": workload.exit_code,
            **workload.failure,
        },
    )


def _enter(workload: models.Workload, phase: Phase, now: datetime) -> None:
    """Put a workload into a phase, with what that phase implies."""
    if workload.phase == phase:
        return
    workload.phase = phase
    workload.phase_since = now
    match phase:
        case Phase.STOPPED | Phase.COMPLETED | Phase.FAILED:
            workload.ended_at = now
            workload.running_since = None
            workload.reason_code, workload.reason = "", {}
            if workload.delete_requested:
                workload.deleted_at = now
            workload.nominations.all().delete()
            code, params = phase.value, {"code": workload.stop_code}
            models.WorkloadEvent.objects.create(workload=workload, at=now, code=code, params=params)
            if phase is not Phase.STOPPED:  # whoever or whatever stopped it has told that already
                _tell_state(workload, code, now)
        case Phase.PENDING:
            workload.running_since = None
        case Phase.RUNNING:
            workload.running_since = workload.running_since or now
            workload.failure = {}
            models.WorkloadEvent.objects.create(workload=workload, at=now, code="running")
            _tell_state(workload, "running", now)
        case _:
            pass


def _tell_state(workload: models.Workload, phase: str, now: datetime) -> None:
    params = {"exit_code": workload.exit_code} if phase == Phase.FAILED else {}
    notices.tell_owner(workload=workload, code=f"work_{phase}", params=params, now=now)


def _note_running(workload: models.Workload, alive: list[models.Replica], now: datetime) -> bool:
    """Move starting to running, and a service between running and degraded."""
    if workload.phase not in (Phase.STARTING, Phase.RUNNING, Phase.DEGRADED):
        return False
    if alive and all(r.phase == ReplicaPhase.STOPPING for r in alive):
        _enter(workload, Phase.STOPPING, now)
        workload.save()
        return True
    running = sum(r.phase == ReplicaPhase.RUNNING for r in alive)
    phase = Phase(workload.phase)
    if running >= max(1, workload.min_replicas):
        phase = Phase.RUNNING
    elif workload.phase == Phase.RUNNING and workload.kind == Kind.INFERENCE:
        phase = Phase.DEGRADED
    if phase == workload.phase:
        return False
    if phase is Phase.RUNNING:
        times = [r.running_at for r in alive if r.running_at is not None]
        workload.running_since = workload.running_since or max(times)
    _enter(workload, phase, now)
    workload.save()
    return True


def carry_out_stops(*, now: datetime) -> bool:
    """Begin the end of workloads that were asked to stop, also while no tick ran."""
    asked = models.Workload.objects.filter(
        stop_requested=True,
        phase__in=[Phase.STARTING, Phase.RUNNING, Phase.DEGRADED, Phase.STOPPING],
    )
    changed = False
    for workload in asked:
        alive = list(workload.replicas.exclude(phase=ReplicaPhase.ENDED))
        if _stop_replicas(alive, code=workload.stop_code or "by_user", now=now):
            changed = True
        if alive and workload.phase != Phase.STOPPING:
            workload.phase = Phase.STOPPING
            workload.phase_since = now
            workload.generation += 1
            workload.save()
        if not alive:
            _enter(workload, Phase.STOPPED, now)
            workload.save()
            changed = True
    return changed


def _stop_replicas(replicas: Iterable[models.Replica], *, code: str, now: datetime) -> int:
    stopped = 0
    for replica in replicas:
        if replica.phase in (ReplicaPhase.STARTING, ReplicaPhase.RUNNING):
            replica.phase = ReplicaPhase.STOPPING
            replica.stopping_at = now
            replica.stop_code = code
            replica.save()
            stopped += 1
    return stopped
