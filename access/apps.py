"""Access as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Holds users and access rules."""

    name = "access"
    default_auto_field = "django.db.models.BigAutoField"
