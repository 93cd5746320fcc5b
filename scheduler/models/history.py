"""What happened: events of workloads and the decisions behind them, as codes and numbers."""

from __future__ import annotations

from django.db import models

from scheduler.models.tenancy import Project
from scheduler.models.workload import Workload


class Decision(models.Model):
    """One act of the scheduler or of a person that moved work. The id is its number."""

    at = models.DateTimeField()
    cycle = models.BigIntegerField(default=0)
    #: place, reclaim, preempt, consolidate, lost, resume, stop, deny, scale, idle_stop, quota.
    verb = models.CharField(max_length=16)
    workload = models.ForeignKey(
        Workload, on_delete=models.SET_NULL, null=True, blank=True, related_name="decisions"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, blank=True)
    pool = models.ForeignKey("scheduler.NodePool", on_delete=models.SET_NULL, null=True)
    #: Checks, placements, shortfall: numbers only. Names of other parties stand in the party rows.
    params = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(name="decision_by_time", fields=["-at"])]

    def __str__(self) -> str:
        return f"{self.id} {self.verb}"


class DecisionParty(models.Model):
    """Another workload that a decision touched; shown only to those who may see its project."""

    class Role(models.TextChoices):
        VICTIM = "victim"
        SPARED = "spared"

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="parties")
    role = models.CharField(max_length=8, choices=Role.choices)
    position = models.PositiveSmallIntegerField(default=0)
    workload = models.ForeignKey(
        Workload, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    params = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.decision_id} {self.role} {self.workload_id}"


class WorkloadEvent(models.Model):
    """One line of a workload's timeline: a code and numbers, read in the reader's language."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    code = models.CharField(max_length=40)
    params = models.JSONField(default=dict)
    decision = models.ForeignKey(Decision, on_delete=models.SET_NULL, null=True, blank=True)

    class Meta:
        indexes = [models.Index(name="event_by_workload", fields=["workload", "-at"])]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.code}"
