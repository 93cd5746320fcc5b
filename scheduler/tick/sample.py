"""What replicas do: one sample each few seconds, to their rows and to the ledger's activity."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction

from scheduler import models
from scheduler.core import idle as idle_rule
from scheduler.core.instants import from_us, optional_us, to_us
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.telemetry.base import ReplicaSample, SampleTarget
from scheduler.tick import engine_room, ledger, use
from scheduler.tick.observations import Observations, key_of

SAMPLE_EVERY = timedelta(seconds=2)
#: A pause between two valid samples that is longer than this is unknown time, not idle time.
LONGEST_GAP = timedelta(seconds=15)

#: Time in which a process wanted to run and had to wait counts as activity only well above the noise
#: of a busy machine, where every wake-up waits a little.
WAITING_COUNTS_FROM = 10

_last: dict[str, datetime] = {}


def take_if_due(*, observations: Observations, now: datetime) -> bool:
    """Sample every two seconds. True where samples were taken."""
    last = _last.get("sample")
    if last is not None and timedelta(0) <= now - last < SAMPLE_EVERY:
        return False
    _last["sample"] = now
    replicas = list(
        models.Replica.objects.filter(phase__in=[ReplicaPhase.RUNNING, ReplicaPhase.STOPPING])
        .select_related("node", "workload__project")
        .prefetch_related(models.with_devices())
        .order_by("id")
    )
    host_devices = max(1, models.Device.objects.filter(virtual=True, node__engine="local").count())
    samples: list[tuple[models.Replica, ReplicaSample]] = []
    for name in sorted({replica.node.engine for replica in replicas} & observations.answered):
        own = [replica for replica in replicas if replica.node.engine == name]
        targets = tuple(_target(replica, observations, host_devices) for replica in own)
        # By the clock of the tick, as all of the ledger: that of another machine may differ.
        taken = [
            replace(each, sampled_at=now) for each in engine_room.sampler(name).sample(targets)
        ]
        samples.extend(zip(own, taken, strict=True))
    record_samples(samples=samples)
    use.record(samples=samples)
    return bool(samples)


def _target(replica: models.Replica, observations: Observations, host_devices: int) -> SampleTarget:
    seen = observations.by_key.get(key_of(replica))
    return SampleTarget(
        replica_id=replica.pk,
        attempt=replica.attempt,
        pid=seen.pid if seen is not None else None,
        supervisor_pid=seen.supervisor_pid if seen is not None else None,
        request_mgpu=replica.mgpu,
        device_uuids=tuple(holding.device.uuid for holding in replica.holdings.all()),
        host_devices=host_devices,
    )


def record_samples(*, samples: list[tuple[models.Replica, ReplicaSample]]) -> None:
    """Write samples to the rows, and what was idle or active since the sample before.

    A sample that says nothing leaves the last valid one and its time as they are: the page tells
    since when there are no metrics, and the time is unknown in the ledger.
    """
    threshold = models.Cluster.objects.one().idle_threshold_permille
    with transaction.atomic():
        changed: list[models.Replica] = []
        for replica, sample in samples:
            if sample.demand_permille is None:
                continue
            idle = is_idle(sample=sample, threshold_permille=threshold)
            _record_activity(replica, idle, sample.sampled_at)
            replica.utilization_permille = sample.utilization_permille
            replica.memory_used_mib = sample.memory_mib
            replica.idle_since = _instant(
                idle_rule.since_after(
                    before=idle_rule.Reading(
                        idle=replica.idle,
                        idle_since_us=optional_us(replica.idle_since),
                        read_at_us=optional_us(replica.sampled_at),
                    ),
                    idle=idle,
                    at_us=to_us(sample.sampled_at),
                    longest_gap_us=LONGEST_GAP // timedelta(microseconds=1),
                )
            )
            replica.idle = idle
            replica.sampled_at = sample.sampled_at
            changed.append(replica)
        fields = ["utilization_permille", "memory_used_mib", "idle", "idle_since", "sampled_at"]
        models.Replica.objects.bulk_update(changed, fields, batch_size=200)


def is_idle(*, sample: ReplicaSample, threshold_permille: int) -> bool:
    """Test whether a valid sample shows no activity: neither use of its share, nor a wait for it.

    Many who compete for few cores use little each and are never idle: what they wait for counts.
    """
    used = sample.utilization_permille or 0
    wanted = sample.demand_permille or 0
    return used < threshold_permille and wanted < threshold_permille * WAITING_COUNTS_FROM


def _instant(at_us: int | None) -> datetime | None:
    return None if at_us is None else from_us(at_us)


def _record_activity(replica: models.Replica, idle: bool, until: datetime) -> None:  # noqa: FBT001
    since = replica.sampled_at
    if since is None or until - since > LONGEST_GAP:
        return
    ledger.record_activity(
        replica=replica,
        project_id=replica.workload.project_id,
        pool_id=replica.workload.pool_id,
        idle=idle,
        since=since,
        until=until,
    )
