"""Workloads, their replicas, and the devices that each replica holds."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.models.cluster import Device, Node, NodePool
from scheduler.models.tenancy import Project

#: Columns by which the table of workloads is sorted, besides the id.
SORTED_BY = (
    "name",
    "priority",
    "submitted_at",
    "phase",
    "kind",
    "request_mgpu",
    "phase_since",
)


class Workload(models.Model):
    """One piece of work: what it asks for, what it runs, where it stands."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="workloads")
    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=12, choices=[(k.value, k.value) for k in Kind])
    priority = models.PositiveSmallIntegerField()
    #: As resolved; ``preemptible_set`` says whether it was set by hand.
    preemptible = models.BooleanField()
    preemptible_set = models.BooleanField(default=False)

    # What one replica asks for.
    devices = models.PositiveSmallIntegerField(default=1)
    request_mgpu = models.PositiveIntegerField(default=0)
    gpu_memory_mib = models.PositiveIntegerField(null=True, blank=True)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    min_replicas = models.PositiveIntegerField(default=1)
    max_replicas = models.PositiveIntegerField(default=1)
    #: How many are wanted now: a service's number moves between its bounds.
    desired_replicas = models.PositiveIntegerField(default=1)
    node_labels = models.JSONField(default=dict, blank=True)
    gpu_models = models.JSONField(default=list, blank=True)

    # What it runs.
    command = models.JSONField(default=list)
    env = models.JSONField(default=dict, blank=True)
    #: Below its own folder; empty: that folder itself.
    working_dir = models.CharField(max_length=200, blank=True)
    readiness_path = models.CharField(max_length=200, blank=True)
    start_timeout_s = models.PositiveIntegerField(default=600)
    grace_s = models.PositiveSmallIntegerField(default=30)
    #: Failures after which it is Failed; 0: never (services).
    max_attempts = models.PositiveSmallIntegerField(default=3)

    # Rules that were in force when it was submitted; empty: none.
    idle_limit_s = models.PositiveIntegerField(null=True, blank=True)
    runtime_limit_s = models.PositiveIntegerField(null=True, blank=True)
    #: Its owner, and not only an admin, may set the idle clock back.
    owner_may_keep = models.BooleanField(default=False)
    #: When someone last asked to keep it; idle time counts from then on.
    kept_at = models.DateTimeField(null=True, blank=True)
    #: Percent of the idle limit that its owner was last warned of.
    idle_warned_percent = models.PositiveSmallIntegerField(default=0)

    # Where it stands.
    phase = models.CharField(
        max_length=10, choices=[(p.value, p.value) for p in Phase], default=Phase.PENDING
    )
    phase_since = models.DateTimeField()
    #: Asked to end by a person or a rule; carried out by the tick.
    stop_requested = models.BooleanField(default=False)
    stop_code = models.CharField(max_length=40, blank=True)
    delete_requested = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True, blank=True)
    #: Never changes: not by interruption, edit or restart.
    submitted_at = models.DateTimeField()
    submitted_by = models.CharField(max_length=150, blank=True)
    running_since = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    generation = models.PositiveIntegerField(default=0)
    #: Why it waits: the core's code and numbers.
    reason_code = models.CharField(max_length=40, blank=True)
    reason = models.JSONField(default=dict, blank=True)
    starving_since = models.DateTimeField(null=True, blank=True)
    backing_off_until = models.DateTimeField(null=True, blank=True)

    # What happened so far.
    attempts = models.PositiveIntegerField(default=0)
    restart_count = models.PositiveIntegerField(default=0)
    interruptions = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    exit_code = models.IntegerField(null=True, blank=True)
    failure = models.JSONField(default=dict, blank=True)
    checkpoint = models.JSONField(default=dict, blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True)
    #: What it said that it resumed from, and whether that equals the last checkpoint.
    resumed = models.JSONField(default=dict, blank=True)
    progress = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="workload_name_unique_in_project",
                fields=["project", "name"],
                condition=Q(deleted_at__isnull=True),
            ),
            models.CheckConstraint(
                name="workload_phase_is_known",
                condition=Q(phase__in=sorted(p.value for p in Phase)),
            ),
            models.CheckConstraint(
                name="workload_kind_is_known",
                condition=Q(kind__in=sorted(k.value for k in Kind)),
            ),
            models.CheckConstraint(
                name="workload_request_is_fraction_or_whole",
                condition=Q(request_mgpu__lte=WHOLE_GPU_MGPU),
            ),
            models.CheckConstraint(
                name="workload_grace_at_most_300", condition=Q(grace_s__lte=300)
            ),
            models.CheckConstraint(
                name="workload_replicas_in_order",
                condition=Q(min_replicas__lte=F("max_replicas")),
            ),
            models.CheckConstraint(
                name="workload_deleted_only_when_ended",
                condition=Q(deleted_at__isnull=True)
                | Q(phase__in=["completed", "failed", "stopped"]),
            ),
        ]
        indexes = [
            models.Index(name="workload_by_pool_phase", fields=["pool", "phase"]),
            models.Index(name="workload_by_project", fields=["project", "-submitted_at"]),
            # The orders of the table, with all that a page is chosen by, so that the index alone is read.
            *(
                models.Index(
                    name=f"workload_sorted_{column}",
                    fields=["pool", column, "id", "project", "deleted_at"],
                    condition=Q(deleted_at__isnull=True),
                )
                for column in SORTED_BY
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id}/{self.name}"


class Replica(models.Model):
    """One attempt of one replica of a workload: it holds devices until it has ended."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="replicas")
    #: Its place in the workload, from 0: the rank of a gang.
    ordinal = models.PositiveIntegerField(default=0)
    #: Number of the workload's launch that it belongs to, from 1.
    attempt = models.PositiveIntegerField(default=1)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="replicas")
    phase = models.CharField(
        max_length=8,
        choices=[(p.value, p.value) for p in ReplicaPhase],
        default=ReplicaPhase.STARTING,
    )
    mgpu = models.PositiveIntegerField(default=0)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    booked_at = models.DateTimeField()
    #: Set once the engine has taken it; until then it may be launched (again).
    launched_at = models.DateTimeField(null=True, blank=True)
    running_at = models.DateTimeField(null=True, blank=True)
    stopping_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    #: Why it is being ended: a rule of the core, or the code of a person's or product's act.
    stop_code = models.CharField(max_length=40, blank=True)
    vacated_for = models.ForeignKey(
        Workload, on_delete=models.SET_NULL, null=True, blank=True, related_name="vacating"
    )
    pid = models.BigIntegerField(null=True, blank=True)
    host = models.CharField(max_length=120, blank=True)
    port = models.PositiveIntegerField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    exit_signal = models.PositiveSmallIntegerField(null=True, blank=True)

    # The last valid sample; empty while nothing was read.
    utilization_permille = models.PositiveIntegerField(null=True, blank=True)
    memory_used_mib = models.PositiveIntegerField(null=True, blank=True)
    sampled_at = models.DateTimeField(null=True, blank=True)
    #: None: unknown, which is not idle.
    idle = models.BooleanField(null=True, blank=True)
    idle_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="replica_runs_once",
                fields=["workload", "ordinal"],
                condition=~Q(phase="ended"),
            ),
            models.UniqueConstraint(
                name="replica_attempt_unique", fields=["workload", "ordinal", "attempt"]
            ),
            models.CheckConstraint(
                name="replica_phase_is_known",
                condition=Q(phase__in=sorted(p.value for p in ReplicaPhase)),
            ),
            models.CheckConstraint(
                name="replica_ended_has_its_time",
                condition=Q(phase="ended", ended_at__isnull=False)
                | (~Q(phase="ended") & Q(ended_at__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(name="replica_alive", fields=["workload"], condition=~Q(phase="ended")),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id}-{self.ordinal}-{self.attempt}"


class ReplicaDevice(models.Model):
    """What one replica holds on one device. The row goes when the device is free again."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="holdings")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="holdings")
    mgpu = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="replica_holds_a_device_once", fields=["replica", "device"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.replica_id} on {self.device_id}"


def with_devices() -> models.Prefetch[str]:
    """Return what brings replicas with their holdings and devices, in one further query.

    Not ``holdings__device``: Django then asks for the devices by an OR a device, and SQLite refuses
    a thousand of them.
    """
    return models.Prefetch("holdings", queryset=ReplicaDevice.objects.select_related("device"))


class Nomination(models.Model):
    """A place that is kept for a workload until its victims are gone."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="nominations")
    position = models.PositiveIntegerField(default=0)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    device_indices = models.JSONField(default=list)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="nomination_position_unique", fields=["workload", "position"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} at {self.node_id}"
