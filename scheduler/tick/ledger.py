"""The ledger's writer: intervals open with a booking and close when the devices are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from scheduler import models
from scheduler.core.instants import optional_us, to_us
from scheduler.core.vocabulary import Rule
from scheduler.operations import usage_rollup

#: Ends that one's work did not choose: what was not saved by then is lost.
INTERRUPTIONS = frozenset({Rule.RECLAIM.value, Rule.PREEMPT.value, Rule.CONSOLIDATE.value})


def open_allocation(
    *,
    replica: models.Replica,
    workload: models.Workload,
    devices: Sequence[models.Device],
    asked_at: datetime | None,
) -> models.AllocationInterval:
    """Return the interval of a booking, not yet saved; it begins with the replica's booking.

    ``asked_at``: since when this start was waited for, None where that is not known.
    """
    return models.AllocationInterval(
        workload=workload,
        replica=replica,
        attempt=replica.attempt,
        project=workload.project,
        department_id=workload.project.department_id,
        pool_id=workload.pool_id,
        node_id=replica.node_id,
        devices=[device.index for device in devices],
        gpu_models=models_of(devices=devices),
        mgpu=replica.mgpu,
        cpu_milli=replica.cpu_milli,
        memory_mib=replica.memory_mib,
        kind=workload.kind,
        preemptible=workload.preemptible,
        from_us=to_us(replica.booked_at),
        asked_us=optional_us(asked_at),
    )


def models_of(*, devices: Sequence[models.Device]) -> list[str]:
    """Return the models of devices as an interval keeps them: one name where all are alike."""
    names = [device.model for device in devices]
    return names[:1] if len(set(names)) == 1 else names


def note_running(*, replica: models.Replica) -> None:
    """Note when a replica ran, or answered; a noted time stays as it is."""
    if replica.running_at is not None:
        models.AllocationInterval.objects.filter(replica=replica, running_us__isnull=True).update(
            running_us=to_us(replica.running_at)
        )


def close_allocation(*, replica: models.Replica, at: datetime, code: str) -> None:
    """Close a replica's interval at the moment its devices were free; a closed one stays as it is.

    ``code``: why it was ended, empty where it ended by itself.
    """
    interval = models.AllocationInterval.objects.get(replica=replica)
    if interval.to_us is None:
        interval.to_us = max(to_us(at), interval.from_us)
        interval.running_us = optional_us(replica.running_at)
        interval.ended_by = code
        if code in INTERRUPTIONS:
            served = replica.vacated_for
            interval.ended_for_id = None if served is None else served.project_id
            interval.lost_us = _lost_us(replica)
        interval.save()
        usage_rollup.forget_after(at_us=interval.to_us)
    models.ActivityInterval.objects.filter(replica=replica, open=True).update(open=False)


def _lost_us(replica: models.Replica) -> int:
    """Return the time since the start, or since it last said that it had saved, up to its notice.

    What it saved after it was asked to go counts: then nothing is lost.
    """
    if replica.running_at is None or replica.stopping_at is None:
        return 0
    saved_at = replica.workload.checkpoint_at
    since = replica.running_at if saved_at is None else max(saved_at, replica.running_at)
    return max(0, to_us(replica.stopping_at) - to_us(since))


def record_activity(
    *,
    replica: models.Replica,
    project_id: int,
    pool_id: int,
    idle: bool,
    since: datetime,
    until: datetime,
) -> None:
    """Record that the replica was idle, or active, from one sample to the next.

    A row grows while samples agree and no sample is missing; what no row covers is unknown.
    """
    since_us, until_us = to_us(since), to_us(until)
    current = models.ActivityInterval.objects.filter(replica=replica, open=True).first()
    if current is not None and current.idle == idle and current.to_us >= since_us:
        if until_us > current.to_us:
            current.to_us = until_us
            current.save(update_fields=["to_us"])
        return
    if current is not None:
        since_us = max(since_us, current.to_us)
        current.open = False
        current.save(update_fields=["open"])
    if until_us > since_us:
        models.ActivityInterval.objects.create(
            replica=replica,
            project_id=project_id,
            pool_id=pool_id,
            idle=idle,
            mgpu=replica.mgpu,
            from_us=since_us,
            to_us=until_us,
        )


def record_capacity(*, pools: Iterable[models.NodePool], now: datetime) -> None:
    """Record what each pool offers, where that has changed."""
    at_us = to_us(now)
    for pool in pools:
        capacity_mgpu = (
            1000
            * models.Device.objects.filter(
                node__pool=pool, healthy=True, node__state=models.Node.State.READY
            ).count()
        )
        current = models.CapacityInterval.objects.filter(pool=pool, to_us__isnull=True).first()
        if current is not None and current.capacity_mgpu == capacity_mgpu:
            continue
        if current is not None:
            current.to_us = at_us
            current.save(update_fields=["to_us"])
        models.CapacityInterval.objects.create(
            pool=pool, capacity_mgpu=capacity_mgpu, from_us=at_us
        )
