"""Step 6 of a tick: what should be against what engines run. Repeats until they agree."""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction

from scheduler import models
from scheduler.core.vocabulary import Kind, ReplicaPhase
from scheduler.engines.base import (
    DeviceGrant,
    Engine,
    EngineError,
    EnginePhase,
    EngineUnreachable,
    Gang,
    LaunchRefused,
    LaunchSpec,
    Observation,
    ReplicaKey,
    Service,
)
from scheduler.operations import replica_tokens
from scheduler.tick import engine_room, launch_assets
from scheduler.tick.observations import Observations, key_of

log = logging.getLogger(__name__)


def converge(*, observations: Observations, now: datetime) -> bool:
    """Launch what is booked, end what is stopping, clear what no row speaks of. True if it acted."""
    known, wanting = _compare(observations)
    acted = False
    for replica in _rows(wanting):
        try:
            acted |= _converge_one(replica, observations, now)
        except EngineUnreachable:
            log.warning("converge.engine.unreachable", extra={"replica_id": replica.pk})
    _clear_unknown(known, observations)
    return acted


def _compare(observations: Observations) -> tuple[set[ReplicaKey], list[int]]:
    """Return the keys of all replicas that have not ended, and the ids of those of engines that answered
    that are to be launched or ended. Only of the latter are whole rows read.
    """
    rows = (
        models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
        .order_by("id")
        .values_list("pk", "attempt", "phase", "launched_at", "node__engine", "node__name")
    )
    known, wanting = set(), []
    for replica_id, attempt, phase, launched_at, engine, node_name in rows:
        key = ReplicaKey(replica_id=replica_id, attempt=attempt)
        known.add(key)
        seen = observations.by_key.get(key)
        if observations.is_told_of(engine=engine, node_name=node_name) and (
            _is_unlaunched(phase, launched_at, seen) or _is_unended(phase, seen)
        ):
            wanting.append(replica_id)
    return known, wanting


def _rows(replica_ids: list[int]) -> list[models.Replica]:
    if not replica_ids:
        return []
    return list(
        models.Replica.objects.filter(pk__in=replica_ids)
        .exclude(phase=ReplicaPhase.ENDED)
        .select_related("node", "workload__project")
        .prefetch_related(models.with_devices())
        .order_by("id")
    )


def _is_unlaunched(phase: str, launched_at: datetime | None, seen: Observation | None) -> bool:
    """Test whether a booked replica is still to be handed to its engine."""
    return phase == ReplicaPhase.STARTING and launched_at is None and seen is None


def _is_unended(phase: str, seen: Observation | None) -> bool:
    """Test whether the engine is still to be told to end a replica."""
    if phase != ReplicaPhase.STOPPING or seen is None or seen.term_sent_at is not None:
        return False
    return seen.phase in (EnginePhase.STARTING, EnginePhase.RUNNING)


def _converge_one(replica: models.Replica, observations: Observations, now: datetime) -> bool:
    engine = engine_room.engine(replica.node.engine)
    key = key_of(replica)
    seen = observations.by_key.get(key)
    if _is_unlaunched(replica.phase, replica.launched_at, seen):
        _launch(engine, replica, now)
        return True
    if not _is_unended(replica.phase, seen):
        return False
    engine.terminate(key, grace_s=replica.workload.grace_s, reason=replica.stop_code)
    return True


def _launch(engine: Engine, replica: models.Replica, now: datetime) -> None:
    """Launch a booked replica. Said again after a crash, the engine runs its key once only."""
    try:
        engine.launch(_spec_of(engine, replica))
    except LaunchRefused as refused:
        _refuse(replica, str(refused), now)
        return
    models.Replica.objects.filter(pk=replica.pk, launched_at__isnull=True).update(
        launched_at=now, last_seen_at=now
    )


@transaction.atomic
def _refuse(replica: models.Replica, message: str, now: datetime) -> None:
    """Note that the engine will never run this; the next observation ends it as a failure."""
    workload = models.Workload.objects.select_for_update(of=("self",)).get(pk=replica.workload_id)
    workload.failure = {"message": message}
    workload.save(update_fields=["failure"])
    replica.phase = ReplicaPhase.STOPPING
    replica.stopping_at = now
    replica.stop_code = "launch_refused"
    replica.save(update_fields=["phase", "stopping_at", "stop_code"])


def _spec_of(engine: Engine, replica: models.Replica) -> LaunchSpec:
    workload = replica.workload
    service = None
    if workload.kind == Kind.INFERENCE or workload.readiness_path:
        service = Service(
            readiness_path=_expand(workload.readiness_path or "/health", workload),
            start_timeout_s=workload.start_timeout_s,
        )
    has_page = workload.kind == Kind.WORKSPACE and service is not None
    mounts, env = launch_assets.of(workload)
    return LaunchSpec(
        key=key_of(replica),
        workload_id=workload.pk,
        project_name=workload.project.name,
        workload_name=workload.name,
        command=tuple(_expand(part, workload) for part in workload.command),
        storage_key=f"workload-{workload.pk}",
        node_name=replica.node.name,
        env=env,
        mounts=mounts,
        working_dir=workload.working_dir,
        devices=tuple(
            DeviceGrant(
                index=holding.device.index,
                uuid=holding.device.uuid,
                request_mgpu=holding.mgpu,
                memory_mib=holding.memory_mib,
                virtual=holding.device.virtual,
            )
            for holding in sorted(replica.holdings.all(), key=lambda h: h.device.index)
        ),
        service=service,
        gang=_gang_of(engine, replica),
        restart_count=workload.restart_count,
        grace_s=workload.grace_s,
        progress_url=_progress_url(workload),
        progress_token=replica_tokens.token_of(key_of(replica)),
        workspace_path=f"/workspaces/{workload.pk}/" if has_page else "",
        workspace_secret=replica_tokens.workspace_secret_of(key_of(replica)) if has_page else "",
    )


def _progress_url(workload: models.Workload) -> str:
    """Return where a workload may report its progress; empty where nobody said where the API is."""
    here = str(settings.REPLICA_URL)
    return f"{here}/api/v1/workloads/{workload.pk}/progress" if here else ""


def _expand(part: str, workload: models.Workload) -> str:
    """Put a workspace's path in the place of ``{path}``."""
    return part.replace("{path}", f"/workspaces/{workload.pk}/")


def _gang_of(engine: Engine, replica: models.Replica) -> Gang | None:
    """Return a gang member's place. The first launched member's port is kept for the attempt."""
    workload = replica.workload
    if workload.kind != Kind.DISTRIBUTED:
        return None
    meeting = dict(workload.progress.get("meeting", {}))
    if meeting.get("attempt") != replica.attempt:
        place = engine.find_meeting_point(_node_of_first(workload))
        meeting = {"attempt": replica.attempt, "host": place.host, "port": place.port}
        workload.progress = {**workload.progress, "meeting": meeting}
        models.Workload.objects.filter(pk=workload.pk).update(progress=workload.progress)
    return Gang(
        rank=replica.ordinal,
        world_size=workload.replicas.exclude(phase=ReplicaPhase.ENDED).count(),
        master_addr=str(meeting.get("host", "127.0.0.1")),
        master_port=int(meeting["port"]),
    )


def _node_of_first(workload: models.Workload) -> str:
    """Return the node of the member with the lowest rank: there the gang meets."""
    first = workload.replicas.exclude(phase=ReplicaPhase.ENDED).order_by("ordinal").first()
    return "" if first is None or first.node is None else first.node.name


def _clear_unknown(known: set[ReplicaKey], observations: Observations) -> None:
    """Forget what has ended and is recorded; end what runs without a row that wants it."""
    for key, seen in observations.by_key.items():
        if key in known:
            continue
        engine = engine_room.engine(observations.engine_of[key])
        try:
            if seen.phase in (EnginePhase.EXITED, EnginePhase.LOST):
                engine.forget(key)
            elif seen.term_sent_at is None:
                log.warning("converge.replica.without_row", extra={"key": str(key)})
                engine.terminate(key, grace_s=5, reason="without_row")
        except EngineError:
            log.warning("converge.clear.failed", extra={"key": str(key)}, exc_info=True)


def end_orphans(*, engine_name: str) -> int:
    """End live processes that carry an engine's mark and belong to no replica; return how many."""
    engine = engine_room.engine(engine_name)
    orphans = engine.orphans()
    for orphan in orphans:
        log.warning("converge.orphan.ended", extra={"key": str(orphan.key), "pid": orphan.pid})
        engine.end_orphan(orphan)
    return len(orphans)
