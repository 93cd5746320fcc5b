"""The scheduler as a Django app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate

APPEND_ONLY = "scheduler.append_only"


class SchedulerConfig(AppConfig):
    """Holds the hierarchy, the tick and the ledger."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and what keeps the audit log after each ``migrate``."""
        from scheduler import checks  # noqa: F401

        post_migrate.connect(_keep_the_log, sender=self, dispatch_uid=APPEND_ONLY)


def _keep_the_log(using: str, **more: Any) -> None:
    from scheduler.operations import append_only

    append_only.install(connections[using])
