"""Gives idle devices back: warns owners, and ends work that its rule ends. Services are left alone."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from scheduler import models
from scheduler.core import idle as core
from scheduler.core.idle import Judgment, Reading, Verdict, Watched
from scheduler.core.instants import optional_us, to_us
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.operations import notices

#: Why a rule ended work, as it stands on the workload and in its last event.
STOP_CODES = {Verdict.STOP_IDLE: "idle", Verdict.STOP_RUNTIME: "runtime"}

#: At this part of the time limit its owner is told.
RUNTIME_WARN_PERCENT = 90


def govern(*, now: datetime) -> bool:
    """Judge all running work that has a rule. True where something is to be stopped."""
    watched = (
        models.Workload.objects.filter(
            Q(idle_limit_s__isnull=False) | Q(runtime_limit_s__isnull=False),
            phase=Phase.RUNNING,
            stop_requested=False,
        )
        .exclude(kind=Kind.INFERENCE)
        .order_by("id")
    )
    stopped = False
    for workload in watched:
        seen = _watched(workload, now)
        judgment = core.judge(watched=seen, now_us=to_us(now))
        if judgment.verdict not in STOP_CODES:
            _warn_of_runtime(workload, seen.ran_s, now)
        stopped |= _act(workload, judgment, now)
    return stopped


def _watched(workload: models.Workload, now: datetime) -> Watched:
    replicas = [
        replica
        for replica in models.Replica.objects.filter(workload=workload).order_by("id")
        if replica.phase != ReplicaPhase.ENDED
    ]
    return Watched(
        limits=core.Limits(
            idle_limit_s=workload.idle_limit_s, runtime_limit_s=workload.runtime_limit_s
        ),
        readings=[
            Reading(
                idle=replica.idle,
                idle_since_us=optional_us(replica.idle_since),
                read_at_us=optional_us(replica.sampled_at),
            )
            for replica in replicas
        ],
        running_since_us=optional_us(workload.running_since),
        ran_s=_ran_s(workload, now),
        kept_at_us=optional_us(workload.kept_at),
        warned_percent=workload.idle_warned_percent,
    )


def _ran_s(workload: models.Workload, now: datetime) -> int:
    """Return how long it has run since it was last asked to start, interruptions left out.

    0 where no rule asks.
    """
    if workload.runtime_limit_s is None:
        return 0
    asked = _asked_at(workload)
    runs = models.Replica.objects.filter(workload=workload, ordinal=0, running_at__isnull=False)
    if asked is not None:
        runs = runs.filter(booked_at__gte=asked)
    return sum(
        int(((ended_at or now) - running_at).total_seconds())
        for running_at, ended_at in runs.values_list("running_at", "ended_at")
        if running_at is not None
    )


def _asked_at(workload: models.Workload) -> datetime | None:
    """Return when someone last asked it to start again."""
    return (
        models.WorkloadEvent.objects.filter(workload=workload, code="start_requested")
        .order_by("-id")
        .values_list("at", flat=True)
        .first()
    )


def _warn_of_runtime(workload: models.Workload, ran_s: int, now: datetime) -> None:
    """Tell the owner once a start that the time limit is near."""
    limit_s = workload.runtime_limit_s
    if limit_s is None or ran_s * 100 < limit_s * RUNTIME_WARN_PERCENT:
        return
    told = models.Notification.objects.filter(workload=workload, code="runtime_warned")
    since = _asked_at(workload)
    if (told.filter(at__gte=since) if since else told).exists():
        return
    left_s = max(0, limit_s - ran_s)
    params: dict[str, object] = {"limit_s": limit_s, "left_s": left_s}
    notices.tell_owner(workload=workload, code="runtime_warned", params=params, now=now)


def _act(workload: models.Workload, judgment: Judgment, now: datetime) -> bool:
    if judgment.verdict in STOP_CODES:
        return _stop(workload, judgment, now)
    if judgment.verdict is Verdict.WARN:
        _warn(workload, judgment, now)
    elif judgment.percent < workload.idle_warned_percent:
        models.Workload.objects.filter(pk=workload.pk).update(idle_warned_percent=judgment.percent)
    return False


def _warn(workload: models.Workload, judgment: Judgment, now: datetime) -> None:
    told: dict[str, object] = {
        "percent": judgment.percent,
        "idle_s": judgment.idle_s,
        "limit_s": workload.idle_limit_s,
        "left_s": judgment.left_s,
    }
    with transaction.atomic():
        changed = models.Workload.objects.filter(
            pk=workload.pk, idle_warned_percent__lt=judgment.percent
        ).update(idle_warned_percent=judgment.percent)
        if changed:
            _tell(workload, "idle_warned", told, now)


def _stop(workload: models.Workload, judgment: Judgment, now: datetime) -> bool:
    told: dict[str, object] = {"limit_s": workload.runtime_limit_s}
    code = "runtime_stop"
    if judgment.verdict is Verdict.STOP_IDLE:
        told = {"idle_s": judgment.idle_s, "limit_s": workload.idle_limit_s}
        code = "idle_stop"
    with transaction.atomic():
        # Decisions are written one at a time: whoever follows them by number misses none.
        models.Cluster.objects.locked()
        row = models.Workload.objects.select_for_update().get(pk=workload.pk)
        if row.stop_requested or Phase(row.phase) is not Phase.RUNNING:
            return False
        row.stop_requested = True
        row.stop_code = STOP_CODES[judgment.verdict]
        row.generation += 1
        row.idle_warned_percent = 0
        row.save(update_fields=["stop_requested", "stop_code", "generation", "idle_warned_percent"])
        decision = models.Decision.objects.create(
            at=now,
            verb=code,
            workload=row,
            project_id=row.project_id,
            pool_id=row.pool_id,
            params=told,
        )
        _tell(row, code, told, now, decision=decision)
    return True


def _tell(
    workload: models.Workload,
    code: str,
    told: dict[str, object],
    now: datetime,
    *,
    decision: models.Decision | None = None,
) -> None:
    """Write the line of the timeline and what the owner is told."""
    models.WorkloadEvent.objects.create(
        workload=workload, at=now, code=code, params=told, decision=decision
    )
    notices.tell_owner(workload=workload, code=code, params=told, now=now)
