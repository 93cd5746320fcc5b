"""The cluster, its node pools, nodes and devices."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from scheduler.core.units import WHOLE_GPU_MGPU


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """The one row, made when it is first asked for."""

    def one(self) -> Cluster:
        """Return the row."""
        return self.get_or_create(pk=1)[0]

    def locked(self) -> Cluster:
        """Return the row, locked until the transaction ends: ticks and quota changes take turns."""
        self.get_or_create(pk=1)
        return self.select_for_update().get(pk=1)


class Cluster(models.Model):
    """The one row that fences the tick: a plan is applied only on the generation it was made from."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    name = models.CharField(max_length=80, default="tidegate")
    #: Ties the folder of running work to this database: its replica ids mean nothing to another.
    uid = models.UUIDField(default=uuid.uuid4, editable=False)
    generation = models.BigIntegerField(default=0)
    #: Number of the last finished cycle and when it ended.
    cycle = models.BigIntegerField(default=0)
    last_cycle_at = models.DateTimeField(null=True, blank=True)
    last_cycle_ms = models.IntegerField(default=0)
    #: One tick at a time: who is at work, and until when that is believed.
    tick_owner = models.CharField(max_length=80, blank=True)
    tick_until = models.DateTimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    currency = models.CharField(max_length=8, default="NT$")
    forbid_oversubscription = models.BooleanField(default=False)
    fair_share_reclaim = models.BooleanField(default=False)
    idle_threshold_permille = models.PositiveSmallIntegerField(default=10)
    #: How long a node may be silent before what runs there counts as lost.
    node_lost_after_s = models.PositiveIntegerField(default=30)
    show_others_in_use = models.BooleanField(default=True)
    #: Some emergency control was not ended yet: pages and ticks ask for them only then.
    has_controls = models.BooleanField(default=False, editable=False)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        verbose_name = _("settings of the cluster")
        verbose_name_plural = _("settings of the cluster")
        constraints = [
            models.CheckConstraint(name="cluster_is_one_row", condition=Q(id=1)),
        ]

    def __str__(self) -> str:
        return self.name


class NodePool(models.Model):
    """Nodes that are governed together. Quotas are kept per pool."""

    name = models.CharField(max_length=63, unique=True)
    spread = models.BooleanField(default=False, help_text="Spread work instead of packing it.")
    consolidation = models.BooleanField(default=False)
    min_runtime_s = models.PositiveIntegerField(default=0)
    starvation_after_s = models.PositiveIntegerField(default=600)
    #: Made for a verification and removed after it; not shown beside the real pools.
    scratch = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("node pool")
        verbose_name_plural = _("node pools")

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One machine that an engine runs work on."""

    class State(models.TextChoices):
        READY = "ready"
        LOST = "lost"

    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=63, unique=True)
    engine = models.CharField(max_length=32, default="local")
    state = models.CharField(max_length=8, choices=State.choices, default=State.READY)
    cordoned = models.BooleanField(default=False)
    draining = models.BooleanField(default=False)
    #: Its devices are lent as virtual ones: no GPU is behind them.
    virtual = models.BooleanField(default=False)
    gpu_model = models.CharField(max_length=80, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    cpu_milli = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: plenty.")
    memory_mib = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: plenty.")
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        constraints = [
            models.CheckConstraint(
                name="node_state_is_known", condition=Q(state__in=["lost", "ready"])
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """One GPU. Its books move in the transaction that places work; the database holds the wall."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80, blank=True)
    model = models.CharField(max_length=80, blank=True)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    virtual = models.BooleanField(default=False)
    healthy = models.BooleanField(default=True)
    allocated_mgpu = models.PositiveIntegerField(default=0)
    allocated_mib = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="device_index_unique_on_node", fields=["node", "index"]),
            models.CheckConstraint(
                name="device_allocated_not_over_capacity",
                condition=Q(allocated_mgpu__gte=0, allocated_mgpu__lte=WHOLE_GPU_MGPU),
            ),
            models.CheckConstraint(
                name="device_memory_not_over_capacity",
                condition=Q(allocated_mib__gte=0)
                & (Q(memory_mib__isnull=True) | Q(allocated_mib__lte=F("memory_mib"))),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"


class GpuFixedCost(models.Model):
    """The memory that an empty process takes on a GPU of a model, as it was measured."""

    gpu_model = models.CharField(max_length=80, unique=True)
    fixed_mib = models.PositiveIntegerField()
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.gpu_model}: {self.fixed_mib} MiB"


class GpuPrice(models.Model):
    """What one GPU of a model costs an hour, from a date. An empty model is the default."""

    gpu_model = models.CharField(max_length=80, blank=True)
    price_per_hour = models.DecimalField(max_digits=12, decimal_places=4)
    from_at = models.DateTimeField()

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        constraints = [
            models.UniqueConstraint(
                name="gpu_price_unique_per_model_and_start", fields=["gpu_model", "from_at"]
            ),
            models.CheckConstraint(
                name="gpu_price_not_negative", condition=Q(price_per_hour__gte=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu_model or '*'} from {self.from_at:%Y-%m-%d}"
