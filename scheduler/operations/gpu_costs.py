"""What a process costs of GPU memory before it does anything: as it was measured, by model of GPU."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler import models
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted


@transaction.atomic
def record_fixed_cost(
    *, gpu_model: str, fixed_mib: int, authority: Authority, now: datetime
) -> models.GpuFixedCost:
    """Keep a measurement; the last one of a model counts.

    Raises:
        NotPermitted: the caller may not change nodes.
    """
    if not authority.may(Action.NODES):
        raise NotPermitted(
            "Only a system admin may change nodes, pools, prices and settings. Ask one.",
            code="nodes_are_for_admins",
        )
    row, _made = models.GpuFixedCost.objects.update_or_create(
        gpu_model=gpu_model, defaults={"fixed_mib": fixed_mib, "measured_at": now}
    )
    audit.record(
        authority=authority,
        now=now,
        action="gpu.fixed_cost",
        target=row,
        after={"gpu_model": gpu_model, "fixed_mib": fixed_mib},
    )
    return row
