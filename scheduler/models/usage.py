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
    #: The model of its devices at that time: one name where all are alike, else one a device.
    gpu_models = models.JSONField(default=list)
    mgpu = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=12)
    preemptible = models.BooleanField()
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField(null=True, blank=True)
    #: Since when this start was waited for; empty: not known.
    asked_us = models.BigIntegerField(null=True, blank=True)
    #: When it ran, or answered; empty: not yet, or never.
    running_us = models.BigIntegerField(null=True, blank=True)
    #: Why it was ended: a rule of the core or the code of an act; empty: by itself, or not yet.
    ended_by = models.CharField(max_length=40, blank=True)
    #: Whose request it made room for.
    ended_for = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    #: Work since its start or its last mark of having saved, when it was asked to go.
    lost_us = models.BigIntegerField(default=0)

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
        indexes = [
            models.Index(name="activity_by_end", fields=["to_us"]),
            models.Index(name="activity_by_begin", fields=["from_us"]),
        ]

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


class ComputeUse(models.Model):
    """CPU and memory that one replica used in one UTC hour, as far as it was measured."""

    replica = models.ForeignKey(Replica, on_delete=models.PROTECT, related_name="use")
    #: First and last measured instant; the use is spread evenly between them.
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField()
    #: Milli-core-microseconds and MiB-microseconds.
    cpu_used = models.BigIntegerField(default=0)
    memory_used = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="compute_use_ends_after_it_begins", condition=Q(to_us__gte=F("from_us"))
            ),
        ]
        indexes = [
            models.Index(name="compute_use_by_end", fields=["to_us"]),
            models.Index(name="compute_use_of_replica", fields=["replica", "-from_us"]),
        ]

    def __str__(self) -> str:
        return f"{self.replica_id} {self.from_us}"


class UsageBlock(models.Model):
    """Exact figures of one row of the ledger, rolled up: the hours of a day, or the days of a month.

    Made from the intervals and made again from them at any time; times are UTC.
    """

    class Level(models.TextChoices):
        DAY = "day"
        MONTH = "month"

    level = models.CharField(max_length=5, choices=Level.choices)
    start_us = models.BigIntegerField()
    department = models.ForeignKey(Department, on_delete=models.CASCADE, related_name="+")
    #: Empty: what the department held beyond its own guarantee.
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="+", null=True, blank=True
    )
    pool = models.ForeignKey(NodePool, on_delete=models.CASCADE, related_name="+")
    #: 64-bit integers, see scheduler/core/usage_cells.py.
    cells = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="usage_block_unique_for_project",
                fields=["level", "start_us", "project", "department", "pool"],
                condition=Q(project__isnull=False),
            ),
            models.UniqueConstraint(
                name="usage_block_unique_for_department",
                fields=["level", "start_us", "department", "pool"],
                condition=Q(project__isnull=True),
            ),
        ]
        indexes = [models.Index(name="usage_block_by_start", fields=["level", "start_us"])]

    def __str__(self) -> str:
        return f"{self.level} {self.start_us} {self.project_id or self.department_id}"


class UsageRollup(models.Model):
    """The one row that says up to when blocks are complete, and with which prices they were made."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    #: Empty: nothing is rolled up.
    until_us = models.BigIntegerField(null=True, blank=True)
    prices = models.CharField(max_length=64, blank=True)
    #: Up to when activity is thinned, see operations/retention.py.
    thinned_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(name="usage_rollup_is_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return str(self.until_us)


class ReportSchedule(models.Model):
    """A report that is made again and again for its owner."""

    class Every(models.TextChoices):
        DAY = "day"
        WEEK = "week"
        MONTH = "month"

    name = models.CharField(max_length=120)
    #: The user's name; what it may see is looked up each time.
    owner = models.CharField(max_length=150)
    every = models.CharField(max_length=5, choices=Every.choices)
    zone = models.CharField(max_length=64)
    language = models.CharField(max_length=10, default="en")
    #: Segment, step and filters as in the page's address.
    query = models.JSONField(default=dict)
    mail_to = models.EmailField(blank=True)
    #: Who reads what it makes: core/vocabulary.py, Readers.
    readers = models.CharField(max_length=5, default="me")
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="report_schedule_name_unique_for_owner", fields=["owner", "name"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.name}"


class SavedReport(models.Model):
    """A report as it was when it was made; later changes of the ledger don't reach it."""

    name = models.CharField(max_length=120)
    owner = models.CharField(max_length=150)
    schedule = models.ForeignKey(
        ReportSchedule, on_delete=models.SET_NULL, null=True, blank=True, related_name="reports"
    )
    made_at = models.DateTimeField()
    query = models.JSONField(default=dict)
    content = models.JSONField()
    #: Who reads it: core/vocabulary.py, Readers.
    readers = models.CharField(max_length=5, default="me")
    #: What one must see to read all of it: {"cluster": bool, "departments": ids, "projects": ids}.
    covers = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(name="saved_report_of_owner", fields=["owner", "-made_at"]),
            models.Index(name="saved_report_by_readers", fields=["readers", "-made_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.name} {self.made_at:%Y-%m-%d}"
