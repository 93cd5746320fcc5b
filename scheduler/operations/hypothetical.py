"""A submission as the core would see it, for a preview: nothing is written."""

from __future__ import annotations

from datetime import datetime

from scheduler.core.instants import to_us
from scheduler.core.snapshot import Request, Workload
from scheduler.core.vocabulary import DEFAULT_PRIORITY, Kind, is_preemptible
from scheduler.operations.services import Scaling
from scheduler.operations.submissions import Submission

#: No row has this id.
ASKED_ID = 0


def as_asked(
    *, submission: Submission, scaling: Scaling | None = None, project_id: int, now: datetime
) -> Workload:
    """Return the workload that a submission would become at ``now``."""
    priority = submission.priority
    if priority is None:
        priority = int(DEFAULT_PRIORITY[submission.kind])
    wanted = submission.max_replicas
    if submission.kind is Kind.INFERENCE:
        initial = scaling.initial_replicas if scaling is not None else None
        wanted = max(1, submission.min_replicas) if initial is None else initial
    asks = submission.request_mgpu > 0 or submission.gpu_memory_mib is not None
    return Workload(
        id=ASKED_ID,
        name=submission.name,
        project_id=project_id,
        kind=submission.kind,
        priority=priority,
        preemptible=is_preemptible(priority=priority, explicit=submission.preemptible),
        request=Request(
            devices=submission.devices if asks else 0,
            request_mgpu=submission.request_mgpu,
            gpu_memory_mib=submission.gpu_memory_mib,
            cpu_milli=submission.cpu_milli,
            memory_mib=submission.memory_mib,
        ),
        submitted_at_us=to_us(now),
        min_replicas=submission.min_replicas,
        max_replicas=wanted,
        node_labels=dict(submission.node_labels),
        gpu_models=frozenset(submission.gpu_models),
    )
