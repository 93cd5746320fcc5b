"""Alerts: rules on recorded figures, where each stands, and what was raised."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.core.alerts import Metric
from scheduler.models.cluster import NodePool
from scheduler.models.tenancy import Department, Project


class AlertRule(models.Model):
    """A figure that must not stay above a threshold, over the cluster, a department or a project."""

    name = models.CharField(max_length=80)
    metric = models.CharField(max_length=30, choices=[(m.value, m.value) for m in Metric])
    department = models.ForeignKey(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    #: Empty: all pools together.
    pool = models.ForeignKey(
        NodePool, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    #: In the unit of the metric's name.
    threshold = models.PositiveBigIntegerField()
    for_s = models.PositiveIntegerField()
    enabled = models.BooleanField(default=True)
    silenced_until = models.DateTimeField(null=True, blank=True)
    silenced_by = models.CharField(max_length=150, blank=True)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()
    #: Since when the figure asks for the other state; and when it was last known, and what it was.
    since_us = models.BigIntegerField(null=True, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)
    value = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="alert_rule_has_one_scope",
                condition=Q(department__isnull=True) | Q(project__isnull=True),
            ),
            models.CheckConstraint(
                name="alert_rule_metric_is_known",
                condition=Q(metric__in=sorted(m.value for m in Metric)),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """One time that a rule was broken for long enough."""

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    raised_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True, blank=True)
    #: As the rule was then.
    threshold = models.PositiveBigIntegerField()
    value = models.BigIntegerField()
    peak = models.BigIntegerField()
    silenced = models.BooleanField(default=False)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    comment = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="alert_raised_once_a_rule",
                fields=["rule"],
                condition=Q(cleared_at__isnull=True),
            )
        ]
        indexes = [models.Index(name="alert_by_time", fields=["-raised_at"])]

    def __str__(self) -> str:
        return f"{self.rule_id} at {self.raised_at:%Y-%m-%d %H:%M}"
