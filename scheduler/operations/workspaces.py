"""Opening a workspace: who may, and that it was done."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduler import models
from scheduler.operations import audit
from scheduler.operations.authority import Authority
from scheduler.operations.workloads import lock_for_work


@transaction.atomic
def note_opened(*, workload_id: int, authority: Authority, now: datetime) -> models.Workload:
    """Write down that a workspace is opened, for who may work on it.

    Raises:
        NotFound, NotPermitted.
    """
    workload = lock_for_work(workload_id=workload_id, authority=authority)
    audit.record(authority=authority, now=now, action="workspace.open", target=workload)
    return workload
