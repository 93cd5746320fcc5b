"""Assets: named, described and deleted here; what they are made of has pages of its own."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from dashboard.admin.base import OperatedAdmin, stamps
from dashboard.admin.site import site
from scheduler.operations import assets


@admin.register(apps.get_model("scheduler", "Asset"), site=site)
class AssetAdmin(OperatedAdmin):
    """Assets of every scope. Of a credential nothing but its name is here."""

    list_display = ("name", "kind", "department", "project", "description", "updated_at")
    list_filter = ("kind",)
    search_fields = ("name", "description", "project__name", "department__name")
    fields = ("name", "description")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those that live and are no verification's."""
        rows = super().get_queryset(request).select_related("department", "project")
        return rows.filter(deleted_at=None, scratch=False)  # type: ignore[no-any-return]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: the page of each kind asks for what it is made of."""
        return False

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Change name and description."""
        row = form.instance
        draft = assets.AssetDraft(
            name=form.cleaned_data["name"],
            description=form.cleaned_data["description"],
            definition=row.definition,
        )
        return assets.change_asset(
            asset_id=row.pk, version=row.version, draft=draft, **stamps(request)
        )

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Delete one; work that names it keeps what it has."""
        assets.delete_asset(asset_id=obj.pk, **stamps(request))
