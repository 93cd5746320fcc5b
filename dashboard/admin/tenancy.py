"""Departments, projects and their quotas."""

from __future__ import annotations

from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from dashboard.admin.base import GpuField, OperatedAdmin, WeightField, stamps
from dashboard.admin.site import site
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.operations import quotas, units
from scheduler.queries.quota_tree import FIELDS

VALUES = ("quota_mgpu", "limit_mgpu", "over_quota", "rank", "weight_milli")


@admin.register(apps.get_model("scheduler", "Department"), site=site)
class DepartmentAdmin(OperatedAdmin):
    """Departments: make, rename, delete."""

    list_display = ("name", "created_at")
    search_fields = ("name",)
    fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those that live and are no verification's."""
        return super().get_queryset(request).filter(deleted_at=None, scratch=False)  # type: ignore[no-any-return]

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Make or rename."""
        name = form.cleaned_data["name"]
        if form.instance.pk is None:
            return units.create_department(name=name, **stamps(request))
        return units.change_department(department_id=form.instance.pk, name=name, **stamps(request))

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Delete one that has no projects."""
        units.delete_department(department_id=obj.pk, **stamps(request))


@admin.register(apps.get_model("scheduler", "Project"), site=site)
class ProjectAdmin(OperatedAdmin):
    """Projects: make, rename, move to another department, delete."""

    list_display = ("name", "department", "created_at")
    list_filter = ("department",)
    search_fields = ("name",)
    fields = ("name", "department", "color")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those that live and are no verification's."""
        rows = super().get_queryset(request).select_related("department")
        return rows.filter(deleted_at=None, department__scratch=False)  # type: ignore[no-any-return]

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Make, or change name, department and color."""
        data = form.cleaned_data
        if form.instance.pk is None:
            return units.create_project(
                department_id=data["department"].pk, name=data["name"], **stamps(request)
            )
        return units.change_project(
            project_id=form.instance.pk,
            name=data["name"],
            color=data["color"],
            department_id=data["department"].pk,
            **stamps(request),
        )

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Delete one without work."""
        units.delete_project(project_id=obj.pk, **stamps(request))


class QuotaAdmin(OperatedAdmin):
    """Quotas of one level, also edited in the list: all rows of a save together."""

    level: Level
    unit: str
    list_filter: tuple[Any, ...] = ("pool",)
    list_editable = (*VALUES, "version")
    actions_list = ("export_csv", "export_yaml", "import_file")

    @action(description=_("Export CSV"), url_path="export-csv")  # type: ignore[untyped-decorator]
    def export_csv(self, request: HttpRequest) -> HttpResponse:
        """Lead to the whole tree as CSV."""
        return redirect("quota_export", "csv")

    @action(description=_("Export YAML"), url_path="export-yaml")  # type: ignore[untyped-decorator]
    def export_yaml(self, request: HttpRequest) -> HttpResponse:
        """Lead to the whole tree as YAML."""
        return redirect("quota_export", "yaml")

    @action(description=_("Import"), url_path="import")  # type: ignore[untyped-decorator]
    def import_file(self, request: HttpRequest) -> HttpResponse:
        """Lead to the page that shows a file's difference first."""
        return redirect("quota_file")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Show amounts in GPUs, and carry the version that the values were read at."""
        if db_field.name in ("quota_mgpu", "limit_mgpu"):
            return GpuField(unlimited=db_field.name == "limit_mgpu", label=db_field.verbose_name)
        if db_field.name == "weight_milli":
            return WeightField(label=db_field.verbose_name)
        if db_field.name == "version":
            return forms.IntegerField(widget=forms.HiddenInput, required=False)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what can't be changed once it is there: which unit in which pool."""
        return () if obj is None else (self.unit, "pool")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a reason stands in the audit log."""
        return (self.unit, "pool", *VALUES, "version")

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Set one row."""
        row = form.instance
        data = form.cleaned_data
        pool_id = row.pool_id if row.pk else data["pool"].pk
        unit_id = getattr(row, f"{self.unit}_id") if row.pk else data[self.unit].pk
        self._set(request, pool_id, [self._edit(unit_id, row, data)])
        return self.model._default_manager.get(  # type: ignore[no-any-return]
            **{f"{self.unit}_id": unit_id, "pool_id": pool_id}
        )

    def carry_out_together(self, request: HttpRequest, forms_: list[Any]) -> None:
        """Set the rows of an edited list, pool by pool."""
        by_pool: dict[int, list[quotas.QuotaEdit]] = {}
        for form in forms_:
            row = form.instance
            edit = self._edit(getattr(row, f"{self.unit}_id"), row, form.cleaned_data)
            by_pool.setdefault(row.pool_id, []).append(edit)
        for pool_id, edits in by_pool.items():
            self._set(request, pool_id, edits)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: a guarantee is set to 0, its row stays."""
        return False

    def _set(self, request: HttpRequest, pool_id: int, edits: list[quotas.QuotaEdit]) -> None:
        quotas.set_quotas(pool_id=pool_id, edits=edits, **stamps(request))

    def _edit(self, unit_id: int, row: Any, data: dict[str, Any]) -> quotas.QuotaEdit:
        kept = {name: getattr(row, name) for name in FIELDS if name not in VALUES}
        return quotas.QuotaEdit(
            level=self.level,
            id=unit_id,
            values=QueueQuota(**{name: data[name] for name in VALUES}, **kept),
            version=data.get("version") if row.pk else None,
        )


@admin.register(apps.get_model("scheduler", "DepartmentQuota"), site=site)
class DepartmentQuotaAdmin(QuotaAdmin):
    """What departments are guaranteed in each pool."""

    level = Level.DEPARTMENT
    unit = "department"
    list_display = ("department", "pool", *VALUES, "version")
    search_fields = ("department__name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those of departments that live."""
        rows = super().get_queryset(request).select_related("department", "pool")
        return rows.filter(department__deleted_at=None, department__scratch=False)  # type: ignore[no-any-return]


@admin.register(apps.get_model("scheduler", "ProjectQuota"), site=site)
class ProjectQuotaAdmin(QuotaAdmin):
    """What projects are guaranteed in each pool."""

    level = Level.PROJECT
    unit = "project"
    list_display = ("project", "pool", *VALUES, "version")
    list_filter = ("pool", ("project__department", admin.RelatedOnlyFieldListFilter))
    search_fields = ("project__name", "project__department__name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those of projects that live."""
        rows = super().get_queryset(request).select_related("project", "pool")
        return rows.filter(project__deleted_at=None, project__department__scratch=False)  # type: ignore[no-any-return]
