"""Changes of quotas that take effect later, or in a window of each week."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from scheduler.models.cluster import NodePool
from scheduler.models.tenancy import Department, Project


class QuotaSchedule(models.Model):
    """One scheduled change of a pool's quotas: for good at an instant, or while a window holds."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        DONE = "done"
        CANCELLED = "cancelled"

    pool = models.ForeignKey(NodePool, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(_("name"), max_length=60)
    reason = models.CharField(_("reason"), max_length=400, blank=True)
    #: For good at this instant; empty: the window below, of each week, in the cluster's zone.
    at = models.DateTimeField(null=True, blank=True)
    #: Weekdays on which the window begins, Monday is 0; minutes of the day; dates on which none begins.
    days = models.JSONField(default=list)
    from_minute = models.PositiveSmallIntegerField(default=0)
    to_minute = models.PositiveSmallIntegerField(default=0)
    holidays = models.JSONField(default=list)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    #: Its values are in force, and what was before them is kept with its rows.
    open = models.BooleanField(default=False)
    switched_at = models.DateTimeField(null=True, blank=True)
    #: Why the switch that is due could not be made (codes and numbers), and when it was last tried.
    refused = models.JSONField(default=list)
    tried_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("scheduled change")
        verbose_name_plural = _("scheduled changes")
        constraints = [
            models.UniqueConstraint(
                name="quota_schedule_name_unique_while_active",
                fields=["pool", "name"],
                condition=Q(status="active"),
            ),
            models.CheckConstraint(
                name="quota_schedule_status_is_known",
                condition=Q(status__in=["active", "cancelled", "done"]),
            ),
            models.CheckConstraint(
                name="quota_schedule_minutes_are_of_a_day",
                condition=Q(from_minute__lt=1440, to_minute__lt=1440),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class QuotaScheduleRow(models.Model):
    """What a schedule sets of one department or project: only the columns that it is about."""

    schedule = models.ForeignKey(QuotaSchedule, on_delete=models.CASCADE, related_name="rows")
    department = models.ForeignKey(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    #: Column to value.
    cells = models.JSONField(default=dict)
    #: While it is open: the values to go back to.
    before = models.JSONField(default=dict)
    #: What the last switch wrote; a cell that is something else now was changed by a person since.
    written = models.JSONField(default=dict)
    #: Where it could not go at once, since work that can't be interrupted holds more.
    aim = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="quota_schedule_row_has_one_unit",
                condition=Q(department__isnull=False, project__isnull=True)
                | Q(department__isnull=True, project__isnull=False),
            ),
            models.UniqueConstraint(
                name="quota_schedule_row_unique_for_department",
                fields=["schedule", "department"],
                condition=Q(department__isnull=False),
            ),
            models.UniqueConstraint(
                name="quota_schedule_row_unique_for_project",
                fields=["schedule", "project"],
                condition=Q(project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id}: {self.project_id or self.department_id}"
