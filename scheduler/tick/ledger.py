"""The ledger's writer: intervals open with a booking and close when the devices are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.operations import usage_rollup


def open_allocation(
    *, replica: models.Replica, workload: models.Workload, devices: Sequence[models.Device]
) -> models.AllocationInterval:
    """Return the interval of a booking, not yet saved; it begins with the replica's booking."""
    return models.AllocationInterval(
        workload=workload,
        replica=replica,
        attempt=replica.attempt,
        project=workload.project,
        department_id=workload.project.department_id,
        pool_id=workload.pool_id,
        node_id=replica.node_id,
        devices=[device.index for device in devices],
        mgpu=replica.mgpu,
        cpu_milli=replica.cpu_milli,
        memory_mib=replica.memory_mib,
        kind=workload.kind,
        preemptible=workload.preemptible,
        from_us=to_us(replica.booked_at),
    )


def close_allocation(*, replica: models.Replica, at: datetime) -> None:
    """Close a replica's interval at the moment its devices were free; a closed one stays as it is."""
    interval = models.AllocationInterval.objects.get(replica=replica)
    if interval.to_us is None:
        interval.to_us = max(to_us(at), interval.from_us)
        interval.save(update_fields=["to_us"])
        usage_rollup.forget_after(at_us=interval.to_us)
    models.ActivityInterval.objects.filter(replica=replica, open=True).update(open=False)


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
