"""Node pools, nodes, prices and the cluster's settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from dashboard.admin.base import OperatedAdmin, OperatedForm, stamps
from dashboard.admin.site import site
from scheduler.operations import nodes, settings

Node = apps.get_model("scheduler", "Node")
POOL_FIELDS = ("spread", "consolidation", "min_runtime_s", "starvation_after_s")
SETTINGS = tuple(settings.Settings.__dataclass_fields__)


@admin.register(apps.get_model("scheduler", "NodePool"), site=site)
class NodePoolAdmin(OperatedAdmin):
    """Node pools: make, and change how work is placed in them."""

    list_display = ("name", *POOL_FIELDS)
    fields = ("name", *POOL_FIELDS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those that are no verification's."""
        return super().get_queryset(request).filter(scratch=False)  # type: ignore[no-any-return]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the name of a pool that is there: commands and addresses call it by that."""
        return () if obj is None else ("name",)

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Make, or change how work is placed."""
        data = form.cleaned_data
        pool_id = form.instance.pk
        if pool_id is None:
            pool_id = nodes.create_pool(name=data["name"], **stamps(request)).pk
        return nodes.change_pool(
            pool_id=pool_id, **{name: data[name] for name in POOL_FIELDS}, **stamps(request)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: the ledger's hours belong to a pool."""
        return False


class NodeForm(OperatedForm):
    """A node; the GPUs are told when it is registered."""

    gpus = forms.IntegerField(
        label=_("GPUs"),
        min_value=0,
        max_value=64,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    memory_of_gpu_mib = forms.IntegerField(
        label=_("memory of each, MiB"),
        min_value=1,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    model_of_gpu = forms.CharField(
        label=_("model of each"), required=False, max_length=80, widget=UnfoldAdminTextInputWidget
    )

    class Meta:
        model = Node
        fields = ("name", "pool", "engine", "cordoned", "labels")


@admin.register(Node, site=site)
class NodeAdmin(OperatedAdmin):
    """Nodes: register with virtual GPUs, cordon, label."""

    form = NodeForm
    list_display = ("name", "pool", "engine", "state", "cordoned", "gpu_model", "last_seen_at")
    list_filter = ("pool", "state", "cordoned")
    search_fields = ("name", "gpu_model")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return those that are no verification's."""
        return super().get_queryset(request).filter(pool__scratch=False)  # type: ignore[no-any-return]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what can be told of a new node, and what can be changed of one that is there."""
        if obj is not None:
            return ("name", "pool", "engine", "state", "gpu_model", "cordoned", "labels")
        return ("name", "pool", "engine", "gpus", "memory_of_gpu_mib", "model_of_gpu", "labels")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what stays as it was registered."""
        return () if obj is None else ("name", "pool", "engine", "state", "gpu_model")

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Register a node, or cordon and label one."""
        data = form.cleaned_data
        labels = data.get("labels") or {}
        if form.instance.pk is not None:
            return nodes.change_node(
                node_id=form.instance.pk,
                cordoned=data["cordoned"],
                labels=labels,
                **stamps(request),
            )
        device = nodes.DeviceFacts(
            model=data.get("model_of_gpu") or "virtual",
            memory_mib=data.get("memory_of_gpu_mib") or 24_576,
            virtual=True,
        )
        facts = nodes.NodeFacts(
            name=data["name"],
            engine=data["engine"],
            devices=[device] * (data.get("gpus") or 0),
            labels=labels,
        )
        return nodes.register_node(pool_id=data["pool"].pk, facts=facts, **stamps(request))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: cordon a node that is not to be used; its hours stay in the ledger."""
        return False


@admin.register(apps.get_model("scheduler", "GpuPrice"), site=site)
class GpuPriceAdmin(OperatedAdmin):
    """What a GPU costs an hour, from when."""

    list_display = ("gpu_model", "price_per_hour", "from_at")
    list_filter = ("gpu_model",)
    fields = ("gpu_model", "from_at", "price_per_hour")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return which price it is; only its amount can be changed."""
        return () if obj is None else ("gpu_model", "from_at")

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Set the price."""
        data, row = form.cleaned_data, form.instance
        return settings.set_price(
            gpu_model=row.gpu_model if row.pk else data["gpu_model"],
            from_at=row.from_at if row.pk else data["from_at"],
            price_per_hour=data["price_per_hour"],
            **stamps(request),
        )

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Take a price away."""
        settings.remove_price(price_id=obj.pk, **stamps(request))


@admin.register(apps.get_model("scheduler", "Cluster"), site=site)
class ClusterAdmin(OperatedAdmin):
    """The cluster's settings."""

    list_display = ("name", "time_zone", "currency", "forbid_oversubscription")
    fields = SETTINGS

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Change the settings."""
        wanted = settings.Settings(**{name: form.cleaned_data[name] for name in SETTINGS})
        return settings.change_settings(settings=wanted, **stamps(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: there is one cluster."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: there is one cluster."""
        return False
