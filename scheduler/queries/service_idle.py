"""How much of what a service held in the last day computed nothing, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.queries.prices import prices_at

DAY = timedelta(days=1)
HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleShare:
    """Of the share held while it was measured, what was idle.

    ``permille`` None: nothing was measured. ``cost`` None: no price is set.
    """

    permille: int | None
    cost: Decimal | None
    currency: str


def read_idle_share(*, workload_id: int, now: datetime) -> IdleShare:
    """Return a service's idle share of the last day. Four queries."""
    begin_us, end_us = to_us(now - DAY), to_us(now)
    rows = models.ActivityInterval.objects.filter(
        replica__workload_id=workload_id, to_us__gt=begin_us, from_us__lt=end_us
    )
    prices = prices_at(now)
    its_devices = models.Device.objects.filter(node__in=rows.values("replica__node_id"))
    devices = dict(its_devices.order_by("-index").values_list("node_id", "model"))
    measured = idle = 0
    cost = Decimal(0)
    for is_idle, mgpu, from_us, to, node_id, model in rows.values_list(
        "idle", "mgpu", "from_us", "to_us", "replica__node_id", "replica__node__gpu_model"
    ):
        amount = mgpu * (min(to, end_us) - max(from_us, begin_us))
        measured += amount
        if is_idle:
            idle += amount
            price = prices.get(model or devices.get(node_id, ""), prices.get("", Decimal(0)))
            cost += price * amount / (WHOLE_GPU_MGPU * HOUR_US)
    cluster = models.Cluster.objects.filter(id=1).first() or models.Cluster(id=1)
    return IdleShare(
        permille=1000 * idle // measured if measured else None,
        cost=cost if prices else None,
        currency=cluster.currency,
    )
