"""Services follow their load: recorded demand to wanted replicas, and replicas above that drained away.

Runs in every pass of the tick, before the scheduler decides. It writes how many replicas a service
wants; starting them is the scheduler's affair, by quota and limit like any other work. Demand that
was not recorded is unknown: it never takes a replica away.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import redis
from django.db import transaction

from scheduler import events, models
from scheduler.core import autoscale as core
from scheduler.core.instants import from_us, to_us
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.telemetry import demand
from scheduler.tick.service_replicas import match_replicas
from scheduler.tick.service_scene import Scene, note_event

log = logging.getLogger(__name__)

#: How often a service's number is looked at.
EVALUATE_S = 2
#: A gateway has written a second's demand this long after its end.
LAG_US = 1_000_000
#: A point is kept at each change, and at least so often.
POINT_S = 10
#: Points older than this are dropped.
POINTS_KEPT = timedelta(days=7)
PRUNE_EVERY_S = 3600
SERVED_PHASES = (
    Phase.PENDING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.DEGRADED,
    Phase.STOPPING,
)


def scale_services(*, now: datetime) -> bool:
    """Look at the services that are due. True where a number or a replica's way changed."""
    _adopt()
    services = list(
        models.InferenceService.objects.select_related("workload").filter(
            workload__kind=Kind.INFERENCE,
            workload__deleted_at__isnull=True,
            workload__stop_requested=False,
            workload__phase__in=SERVED_PHASES,
        )
    )
    if not services:
        return False
    told = _read_demand(services, now)
    if told is None:
        return False
    due = [service.pk for service in services if _is_due(service, told, now)]
    if not due:
        return False
    return _evaluate(due, told, now)


def _adopt() -> None:
    """Give the defaults to services that were submitted as plain workloads."""
    plain = models.Workload.objects.filter(
        kind=Kind.INFERENCE,
        deleted_at__isnull=True,
        phase__in=SERVED_PHASES,
        service__isnull=True,
    )
    models.InferenceService.objects.bulk_create(
        (
            models.InferenceService(
                workload=workload,
                initial_replicas=workload.min_replicas or 1,
                activation_replicas=workload.min_replicas or 1,
            )
            for workload in plain
        ),
        ignore_conflicts=True,
    )


@transaction.atomic
def _evaluate(due: Sequence[int], told: demand.Demand, now: datetime) -> bool:
    """Look at services one after the other, while no other tick or quota change is at work."""
    models.Cluster.objects.locked()
    services = (
        models.InferenceService.objects.select_for_update(of=("self",))
        .select_related("workload__project")
        .filter(pk__in=due, workload__stop_requested=False, workload__phase__in=SERVED_PHASES)
        .order_by("pk")
    )
    alive: dict[int, list[models.Replica]] = defaultdict(list)
    rows = models.Replica.objects.filter(workload__service__in=due)
    living = rows.exclude(phase=ReplicaPhase.ENDED).select_related("node")
    for replica in living.order_by("pk"):
        alive[replica.workload_id].append(replica)
    changed = False
    for service in services:
        if not _is_due(service, told, now):
            continue  # another tick was here meanwhile
        workload = service.workload
        scene = Scene(
            service=service, workload=workload, alive=alive[workload.pk], told=told, now=now
        )
        changed |= _serve(scene)
    return changed


def _read_demand(
    services: Sequence[models.InferenceService], now: datetime
) -> demand.Demand | None:
    longest_s = max(service.stable_window_s for service in services)
    try:
        return demand.read(
            client=events.client(),
            workload_ids=[service.workload_id for service in services],
            window_s=longest_s,
            now_s=int(now.timestamp()),
        )
    except redis.RedisError:
        log.warning("autoscale.demand.away", exc_info=True)
        return None


def _is_due(service: models.InferenceService, told: demand.Demand, now: datetime) -> bool:
    """Test whether it is time, or somebody waits at zero, or a replica is on its way out."""
    at = service.evaluated_at
    if at is None or now - at >= timedelta(seconds=EVALUATE_S) or service.draining:
        return True
    counts = told.services.get(service.workload_id, demand.Counts())
    return bool(counts.waiting) and service.workload.desired_replicas == 0


def _serve(scene: Scene) -> bool:
    verdict = _decide(scene)
    before = scene.workload.desired_replicas
    _note_cold_start(scene, before, verdict.desired)
    if verdict.desired != before:
        _write_desired(scene, verdict, before)
    moved = match_replicas(scene, verdict.desired)
    _forgive_failures(scene)
    _write_point(scene, verdict)
    service = scene.service
    service.evaluated_at = scene.now
    service.memory = {**service.memory, "autoscaler": asdict(verdict.memory)}
    service.save()
    return moved or verdict.desired != before


def _decide(scene: Scene) -> core.Verdict:
    history = core.History(
        buckets=scene.told.buckets.get(scene.workload.pk, {}),
        covered=scene.told.covered,
        in_flight=scene.counts.in_flight,
        waiting=scene.counts.waiting,
        ready=scene.ready,
        starting=len(scene.staying) - scene.ready,
        desired=scene.workload.desired_replicas,
    )
    return core.decide(
        history=history,
        parameters=parameters_of(scene.service, scene.workload),
        memory=_memory_of(scene.service),
        now_us=to_us(scene.now) - LAG_US,
    )


def parameters_of(service: models.InferenceService, workload: models.Workload) -> core.Parameters:
    """Return a service's settings as the core takes them."""
    return core.Parameters(
        min_replicas=workload.min_replicas,
        max_replicas=workload.max_replicas,
        metric=core.Metric(service.metric) if service.metric else None,
        threshold=service.threshold,
        target_percent=service.target_percent,
        initial_replicas=service.initial_replicas,
        activation_replicas=service.activation_replicas,
        hard_limit=service.hard_limit,
        stable_window_s=service.stable_window_s,
        zero_grace_s=service.zero_grace_s,
        zero_retention_s=service.zero_retention_s,
        scale_down_delay_s=service.scale_down_delay_s,
    )


def _memory_of(service: models.InferenceService) -> core.Memory:
    known = dict(service.memory.get("autoscaler", {}))
    known["recent"] = tuple((at_us, count) for at_us, count in known.get("recent", ()))
    return core.Memory(**known)


# --- The number -----------------------------------------------------------------------------------


def _write_desired(scene: Scene, verdict: core.Verdict, before: int) -> None:
    workload = scene.workload
    workload.desired_replicas = verdict.desired
    workload.generation += 1
    if verdict.desired <= len(scene.staying):
        workload.reason_code, workload.reason = "", {}
    workload.save(update_fields=["desired_replicas", "generation", "reason_code", "reason"])
    told: dict[str, object] = {
        "from": before,
        "to": verdict.desired,
        "cause": verdict.cause.value,
        "metric": scene.service.metric,
        "value_milli": verdict.value_milli,
        "panic_value_milli": verdict.panic_value_milli,
        "target_milli": verdict.target_milli,
        "window_s": scene.service.stable_window_s,
        "panicking": verdict.panicking,
        "waiting": scene.counts.waiting,
    }
    record = models.Decision.objects.create(
        at=scene.now,
        verb="scale",
        workload=workload,
        project_id=workload.project_id,
        pool_id=workload.pool_id,
        params=told,
    )
    note_event(scene, "scaled", told, record)


def _note_cold_start(scene: Scene, before: int, desired: int) -> None:
    """Measure from the demand at zero to the first replica that answers."""
    service = scene.service
    if before == 0 and desired > 0:
        service.waking_since = scene.now
    elif service.waking_since is not None and scene.ready:
        answered = [r.running_at for r in scene.staying if r.running_at is not None]
        took = min(answered, default=scene.now) - service.waking_since
        service.last_cold_start_ms = max(0, took // timedelta(milliseconds=1))
        service.waking_since = None
        note_event(scene, "cold_start", {"ms": service.last_cold_start_ms})
    elif desired == 0:
        service.waking_since = None


def _forgive_failures(scene: Scene) -> None:
    """Count failed starts anew once a replica has answered for a whole window."""
    workload = scene.workload
    long_ago = scene.now - timedelta(seconds=scene.service.stable_window_s)
    steady = [r for r in scene.staying if r.running_at is not None and r.running_at < long_ago]
    if workload.failures and steady:
        workload.failures = 0
        workload.save(update_fields=["failures"])


# --- The record -----------------------------------------------------------------------------------


def _write_point(scene: Scene, verdict: core.Verdict) -> None:
    """Keep a point where something changed, and every so often."""
    service = scene.service
    now_numbers = [verdict.desired, len(scene.alive), scene.ready]
    last = service.memory.get("point", {})
    if last.get("numbers") == now_numbers:
        age_us = to_us(scene.now) - int(last["at_us"])
        if age_us < POINT_S * core.SECOND_US:
            return
    window = core.sum_window(
        history=core.History(
            buckets=scene.told.buckets.get(scene.workload.pk, {}), covered=scene.told.covered
        ),
        began_s=0,
        length_s=service.stable_window_s,
        now_us=to_us(scene.now) - LAG_US,
    )
    models.ScalingPoint.objects.create(
        workload=scene.workload,
        at=scene.now,
        desired=verdict.desired,
        replicas=len(scene.alive),
        ready=scene.ready,
        value_milli=verdict.value_milli,
        panic_value_milli=verdict.panic_value_milli,
        target_milli=verdict.target_milli,
        in_flight=scene.counts.in_flight,
        waiting=scene.counts.waiting,
        rate_milli=window.total.arrived * 1000 // max(1, window.known_s),
        latency_ms=_mean_ms(window.total),
        panicking=verdict.panicking,
        cause=verdict.cause.value,
    )
    point = {"numbers": now_numbers, "at_us": to_us(scene.now)}
    service.memory = {**service.memory, "point": point}
    _prune(scene)


def _mean_ms(total: core.Bucket) -> int | None:
    return total.latency_us // (total.finished * 1000) if total.finished else None


def _prune(scene: Scene) -> None:
    """Drop old points, once an hour."""
    last_us = int(scene.service.memory.get("pruned_us", 0))
    if scene.now - from_us(last_us) < timedelta(seconds=PRUNE_EVERY_S):
        return
    scene.service.memory = {**scene.service.memory, "pruned_us": to_us(scene.now)}
    models.ScalingPoint.objects.filter(
        workload=scene.workload, at__lt=scene.now - POINTS_KEPT
    ).delete()
