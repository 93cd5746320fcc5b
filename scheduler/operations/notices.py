"""What a person does with what it was told: seen."""

from __future__ import annotations

from datetime import datetime

from scheduler import models


def mark_seen(*, username: str, now: datetime) -> int:
    """Mark all lines of a person as seen; return how many were not."""
    unread = models.Notification.objects.filter(username=username, read_at=None)
    return unread.update(read_at=now)
