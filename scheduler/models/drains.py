"""Nodes that are emptied: since when, until when, and by whose wish."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.core.drain import AtDeadline
from scheduler.models.cluster import Node


class NodeDrain(models.Model):
    """One emptying of one node, from its begin until new work may come again."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="drains")
    began_at = models.DateTimeField()
    began_by = models.CharField(max_length=150, blank=True)
    #: Until when that which may not be interrupted is waited for; empty: without end.
    deadline = models.DateTimeField(null=True, blank=True)
    at_deadline = models.CharField(
        max_length=4, choices=[(each.value, each.value) for each in AtDeadline], default="wait"
    )
    #: How many workloads were there when it began.
    found = models.PositiveIntegerField(default=0)
    #: When nothing was left.
    emptied_at = models.DateTimeField(null=True, blank=True)
    #: Admins were told that something is still there after the time set.
    late_told = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="node_is_drained_once", fields=["node"], condition=Q(ended_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} since {self.began_at}"
