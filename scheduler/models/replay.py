"""Replays of drafts of quotas over what was submitted before: what was asked for, and what came of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.models.cluster import NodePool


class QuotaReplay(models.Model):
    """One draft, played over the last days of one pool by the worker. The result is kept."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    pool = models.ForeignKey(NodePool, on_delete=models.CASCADE, related_name="+")
    days = models.PositiveSmallIntegerField()
    #: Rows of the draft: level, id and the columns that it changes.
    draft = models.JSONField(default=list)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=7, choices=Status.choices, default=Status.QUEUED)
    progress_permille = models.PositiveSmallIntegerField(default=0)
    #: When it last went on; one that stands still was cut short.
    touched_at = models.DateTimeField()
    #: Figures of both runs, see scheduler/queries/quota_replays.py; empty until it is done.
    result = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="quota_replay_status_is_known",
                condition=Q(status__in=["done", "failed", "queued", "running"]),
            ),
        ]
        indexes = [models.Index(name="quota_replay_by_pool", fields=["pool", "-id"])]

    def __str__(self) -> str:
        return f"replay {self.pk}: {self.status}"
