"""The scheduler as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Holds the hierarchy, the tick and the ledger."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from scheduler import checks  # noqa: F401
