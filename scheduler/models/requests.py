"""Submissions that carry a key of their sender, so that one sent twice is there once."""

from __future__ import annotations

from django.db import models


class SentOnce(models.Model):
    """What came of one keyed request of one caller. Kept for a day."""

    actor = models.CharField(max_length=150)
    key = models.CharField(max_length=200)
    #: Hash of what was asked for: the same key for something else is a mistake.
    fingerprint = models.CharField(max_length=64)
    object_id = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="sent_once_by_actor", fields=["actor", "key"]),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.key}"
