"""The audit log, to read."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest

from dashboard.admin.base import OperatedAdmin
from dashboard.admin.site import site


@admin.register(apps.get_model("scheduler", "AuditEntry"), site=site)
class AuditEntryAdmin(OperatedAdmin):
    """Who changed what, from where, before and after."""

    list_display = ("at", "actor", "door", "action", "object_kind", "object_name", "result")
    list_filter = ("action", "door", "result", "object_kind")
    search_fields = ("actor", "object_name", "reason")
    ordering = ("-id",)
    show_full_result_count = False
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: entries are written with the change that they record."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: the log only grows."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: the log only grows."""
        return False
