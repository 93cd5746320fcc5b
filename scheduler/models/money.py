"""Money: monthly budgets of departments and projects, and closed months."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.models.tenancy import Department, Project


class Budget(models.Model):
    """What one unit may cost a calendar month, in the cluster's currency and zone."""

    department = models.OneToOneField(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="budget"
    )
    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="budget"
    )
    monthly = models.DecimalField(max_digits=14, decimal_places=2)
    #: The month, such as 2026-11, and percent of the last warning.
    warned_month = models.CharField(max_length=7, blank=True)
    warned_percent = models.PositiveSmallIntegerField(default=0)
    #: What the running month has spent of it, and when that was worked out; alert rules read it.
    spent_permille = models.PositiveBigIntegerField(null=True, blank=True)
    spent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="budget_has_one_unit",
                condition=Q(department__isnull=False, project__isnull=True)
                | Q(department__isnull=True, project__isnull=False),
            ),
            models.CheckConstraint(name="budget_is_positive", condition=Q(monthly__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.department or self.project}: {self.monthly}"


class Statement(models.Model):
    """A closed month: what each project cost, as it was then. Never changed."""

    number = models.PositiveIntegerField(unique=True)
    #: Such as 2026-11.
    month = models.CharField(max_length=7, unique=True)
    zone = models.CharField(max_length=64)
    currency = models.CharField(max_length=8)
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=150)
    #: One object a project, see reports/statements.py; exact integrals as text.
    lines = models.JSONField(default=list)
    #: What months closed before have changed by since; the same objects, each with its month.
    corrections = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.number} {self.month}"
