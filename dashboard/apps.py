"""The dashboard as a Django application; it also makes the Celery application the current one."""

from __future__ import annotations

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"

    def ready(self) -> None:
        # Not in dashboard/__init__.py: the launcher imports that package without Celery.
        from dashboard import celery, news  # noqa: F401
