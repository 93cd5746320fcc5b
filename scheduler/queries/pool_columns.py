"""Which workloads a pool's state is made of, and which columns of them; the rest of a row is large."""

from __future__ import annotations

from scheduler.core.vocabulary import Phase

LIVING_PHASES = (
    Phase.PENDING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.DEGRADED,
    Phase.STOPPING,
)

#: Read as tuples: making objects of rows would be most of what a page of a large pool costs.
WORKLOAD_FIELDS = (
    "id",
    "name",
    "project_id",
    "kind",
    "phase",
    "priority",
    "preemptible",
    "devices",
    "request_mgpu",
    "gpu_memory_mib",
    "min_replicas",
    "desired_replicas",
    "submitted_at",
    "phase_since",
    "running_since",
    "grace_s",
    "interruptions",
    "reason_code",
    "reason",
    "checkpoint",
    "checkpoint_at",
)
REPLICA_FIELDS = (
    "id",
    "workload_id",
    "node_id",
    "phase",
    "booked_at",
    "stopping_at",
    "vacated_for_id",
    "stop_code",
    "mgpu",
    "idle",
    "utilization_permille",
    "sampled_at",
)
DEVICE_FIELDS = (
    "id",
    "node_id",
    "index",
    "memory_mib",
    "model",
    "virtual",
    "healthy",
    "allocated_mgpu",
)
