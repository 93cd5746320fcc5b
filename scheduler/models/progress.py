"""What a workload says of itself: how far it is, and its numbers over time."""

from __future__ import annotations

from django.db import models

from scheduler.models.workload import Workload


class WorkloadProgress(models.Model):
    """How far a workload is, as it last said."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="reported"
    )
    at = models.DateTimeField()
    step = models.PositiveBigIntegerField(null=True, blank=True)
    total = models.PositiveBigIntegerField(null=True, blank=True)
    epoch = models.PositiveBigIntegerField(null=True, blank=True)
    #: By replica and attempt: the number of the last report that was taken from its output.
    taken = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return f"{self.workload_id} at {self.step} of {self.total}"


class WorkloadSeries(models.Model):
    """One of its numbers over time, thinned: of each stretch of ``width_ms`` the least and the largest.

    The series with no name is the steps.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="series")
    name = models.CharField(max_length=64, blank=True)
    width_ms = models.PositiveBigIntegerField(default=0)
    #: Pairs of milliseconds since 1970 and value, in time.
    points = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="series_of_workload_once", fields=["workload", "name"])
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.name or 'steps'}"
