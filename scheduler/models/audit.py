"""The audit log: who changed what, from where, before and after. Append-only."""

from __future__ import annotations

from django.db import models


class AuditEntry(models.Model):
    """One attempt to change something, also a refused one. Written with the change it records."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    #: page, api, admin, command, tick.
    door = models.CharField(max_length=16)
    action = models.CharField(max_length=60)
    object_kind = models.CharField(max_length=40)
    object_id = models.BigIntegerField(null=True, blank=True)
    object_name = models.CharField(max_length=200, blank=True)
    department_id = models.BigIntegerField(null=True, blank=True)
    project_id = models.BigIntegerField(null=True, blank=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    reason = models.CharField(max_length=500, blank=True)
    #: done or refused.
    result = models.CharField(max_length=8, default="done")

    class Meta:
        indexes = [models.Index(name="audit_by_time", fields=["-at"])]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.actor} {self.action}"
