"""The audit log, to read."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from dashboard.admin.base import OperatedAdmin
from dashboard.admin.site import site


class _ChoiceFilter(admin.SimpleListFilter):
    """A filter by one of a fixed list of values."""

    values: tuple[str, ...]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the values; they are codes, as they stand in the list."""
        return [(value, value) for value in self.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the chosen one."""
        chosen = self.value()
        return queryset.filter(**{self.parameter_name or "": chosen}) if chosen else queryset


class ResultFilter(_ChoiceFilter):
    """What was done, or what was refused."""

    title = _("result")
    parameter_name = "result"
    values = ("done", "refused")


@admin.register(apps.get_model("scheduler", "AuditEntry"), site=site)
class AuditEntryAdmin(OperatedAdmin):
    """Who changed what, from where, before and after."""

    list_display = ("at", "actor", "door", "action", "object_kind", "object_name", "result")
    # Nothing here reads the whole table: choices are fixed lists, and what is searched has an index.
    list_filter = (ResultFilter,)
    search_fields = ("actor__exact", "action__exact", "object_name__exact")
    search_help_text = _(
        "Who, what was done (such as quota.set) or the object's name, written in full."
    )
    ordering = ("-id",)
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
