"""Ranges that were given for starts, to tell how good such ranges are."""

from __future__ import annotations

from django.db import models

from scheduler.models.workload import Workload


class StartEstimate(models.Model):
    """One range for the start of one wait of a workload, kept once for each wait."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="estimates")
    #: When the wait began.
    waits_since = models.DateTimeField()
    made_at = models.DateTimeField()
    #: Empty: no honest range could be given.
    soonest = models.DateTimeField(null=True, blank=True)
    latest = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="estimate_of_a_wait_once", fields=["workload", "waits_since"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.soonest} to {self.latest}"
