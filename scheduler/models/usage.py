"""The ledger: facts with their times in UTC microseconds. Appended and closed, never edited."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduler.models.cluster import Node, NodePool
from scheduler.models.tenancy import Department, Project
from scheduler.models.workload import Replica, Workload


class AllocationInterval(models.Model):
    """What one replica held, from its booking until its devices were free. Open while it holds."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="allocations")
    replica = models.OneToOneField(Replica, on_delete=models.PROTECT, related_name="allocation")
    attempt = models.PositiveIntegerField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    department = models.ForeignKey(Department, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    devices = models.JSONField(default=list)
    mgpu = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=12)
    preemptible = models.BooleanField()
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="allocation_ends_after_it_begins",
                condition=Q(to_us__isnull=True) | Q(to_us__gte=F("from_us")),
            ),
        ]
        indexes = [
            models.Index(name="allocation_by_project", fields=["project", "from_us"]),
            models.Index(name="allocation_by_end", fields=["to_us"]),
        ]

    def __str__(self) -> str:
        return f"{self.replica_id} {self.mgpu}"


class ActivityInterval(models.Model):
    """Whether one replica computed. What no row covers is unknown, and unknown is not idle."""

    replica = models.ForeignKey(Replica, on_delete=models.PROTECT, related_name="activity")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="+")
    idle = models.BooleanField()
    mgpu = models.PositiveIntegerField()
    from_us = models.BigIntegerField()
    #: The last sample that said so; the row grows while the samples agree.
    to_us = models.BigIntegerField()
    open = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="activity_ends_after_it_begins", condition=Q(to_us__gte=F("from_us"))
            ),
            models.UniqueConstraint(
                name="activity_has_one_open_row", fields=["replica"], condition=Q(open=True)
            ),
        ]
        indexes = [models.Index(name="activity_by_end", fields=["to_us"])]

    def __str__(self) -> str:
        return f"{self.replica_id} {'idle' if self.idle else 'active'}"


class QuotaHistory(models.Model):
    """What a queue was guaranteed and limited to, and to which department it belonged, over time."""

    department = models.ForeignKey(Department, on_delete=models.PROTECT, related_name="+")
    #: Empty: the row is the department's own.
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="+")
    quota_mgpu = models.BigIntegerField()
    limit_mgpu = models.BigIntegerField()
    over_quota = models.BooleanField()
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="quota_history_ends_after_it_begins",
                condition=Q(to_us__isnull=True) | Q(to_us__gte=F("from_us")),
            ),
            models.UniqueConstraint(
                name="project_has_one_quota_in_force",
                fields=["project", "pool"],
                condition=Q(to_us__isnull=True, project__isnull=False),
            ),
            models.UniqueConstraint(
                name="department_has_one_quota_in_force",
                fields=["department", "pool"],
                condition=Q(to_us__isnull=True, project__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id or self.department_id} {self.quota_mgpu}"


class CapacityInterval(models.Model):
    """How many healthy devices a pool offered, over time."""

    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="+")
    capacity_mgpu = models.BigIntegerField()
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="pool_has_one_capacity_in_force",
                fields=["pool"],
                condition=Q(to_us__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} {self.capacity_mgpu}"
