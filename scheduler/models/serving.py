"""Serving: how a service scales, who may call it, what was used, and how its number of replicas went."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.core.autoscale import Metric
from scheduler.models.tenancy import Department, Project
from scheduler.models.workload import Workload

METRICS = sorted(metric.value for metric in Metric)


class InferenceService(models.Model):
    """What an inference workload is beside its replicas: its names, its bounds in time, its metric."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, related_name="service")
    #: The names that requests call it by. Empty: the workload's name.
    model_names = models.JSONField(default=list, blank=True)
    #: Any gateway key may call it, not only those of its project or department.
    open_to_all = models.BooleanField(default=False)

    # When another replica is wanted.
    #: Empty: by activity alone (minimum 0, maximum 1), or never (minimum equals maximum).
    metric = models.CharField(max_length=12, blank=True, choices=[(m, m) for m in METRICS])
    #: Requests in flight, requests a second, milliseconds, or the custom number: for each replica.
    threshold = models.PositiveIntegerField(default=100)
    target_percent = models.PositiveSmallIntegerField(default=70)
    #: Name of the gauge on a replica's metrics page, for the custom metric.
    gauge_name = models.CharField(max_length=120, blank=True)
    gauge_path = models.CharField(max_length=200, default="/metrics")
    #: Until first reached; afterwards the minimum holds.
    initial_replicas = models.PositiveIntegerField(default=1)
    #: How many start when it leaves zero.
    activation_replicas = models.PositiveIntegerField(default=1)
    #: Requests let into one replica; the rest wait. 0: no bound.
    hard_limit = models.PositiveIntegerField(default=0)

    # Bounds in time.
    stable_window_s = models.PositiveIntegerField(default=60)
    zero_grace_s = models.PositiveIntegerField(default=30)
    zero_retention_s = models.PositiveIntegerField(default=0)
    scale_down_delay_s = models.PositiveIntegerField(default=0)
    request_timeout_s = models.PositiveIntegerField(default=300)
    #: The longest that a replica that is scaled away may finish what it has.
    drain_s = models.PositiveIntegerField(default=120)
    #: Requests that may wait at each gateway process; beyond it 429.
    waiting_limit = models.PositiveIntegerField(default=1000)

    # What the autoscaler remembers.
    memory = models.JSONField(default=dict, blank=True)
    evaluated_at = models.DateTimeField(null=True, blank=True)
    #: Ids of replicas that get no new requests, each with the instant (UTC microseconds) it began.
    draining = models.JSONField(default=dict, blank=True)
    #: When it left zero and no replica has answered since; empty otherwise.
    waking_since = models.DateTimeField(null=True, blank=True)
    last_cold_start_ms = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="service_target_percent_in_range",
                condition=Q(target_percent__gte=1, target_percent__lte=100),
            ),
            models.CheckConstraint(
                name="service_threshold_positive", condition=Q(threshold__gte=1)
            ),
            models.CheckConstraint(
                name="service_metric_is_known", condition=Q(metric__in=["", *METRICS])
            ),
            models.CheckConstraint(
                name="service_activation_positive", condition=Q(activation_replicas__gte=1)
            ),
            models.CheckConstraint(
                name="service_window_in_range",
                condition=Q(stable_window_s__gte=6, stable_window_s__lte=3600),
            ),
        ]

    def __str__(self) -> str:
        return f"service {self.workload_id}"


class GatewayKey(models.Model):
    """A key to the gateway. It is shown once, when it is made; only its digest is kept."""

    name = models.CharField(max_length=63)
    #: The first characters, to tell keys apart.
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    #: One of the two: whose services it calls and whose usage it is.
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="gateway_keys"
    )
    department = models.ForeignKey(
        Department, on_delete=models.PROTECT, null=True, blank=True, related_name="gateway_keys"
    )
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    #: Empty: every model of its scope.
    allowed_models = models.JSONField(default=list, blank=True)
    #: 0: no bound, for the three that follow.
    requests_per_minute = models.PositiveIntegerField(default=0)
    tokens_per_day = models.PositiveBigIntegerField(default=0)
    #: Millionths of the currency, over the key's whole life.
    budget_micro = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="gateway_key_has_one_scope",
                condition=Q(project__isnull=True, department__isnull=False)
                | Q(project__isnull=False, department__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}... {self.name}"


class GatewayUsage(models.Model):
    """What one key used of one model in one hour."""

    #: Names of its counts, in the order in which gateways hand them on.
    COUNTS = (
        "requests",
        "errors",
        "input_tokens",
        "output_tokens",
        "served_ms",
        "queued_ms",
        "cost_micro",
    )

    key = models.ForeignKey(GatewayKey, on_delete=models.PROTECT, related_name="usage")
    #: The service's project, which need not be the key's.
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    model = models.CharField(max_length=200)
    hour_at = models.DateTimeField()
    requests = models.PositiveBigIntegerField(default=0)
    errors = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    #: From the first byte sent to a replica to the last one back.
    served_ms = models.PositiveBigIntegerField(default=0)
    queued_ms = models.PositiveBigIntegerField(default=0)
    cost_micro = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="gateway_usage_unique_per_hour", fields=["key", "project", "model", "hour_at"]
            ),
        ]
        indexes = [models.Index(name="gateway_usage_by_hour", fields=["project", "hour_at"])]

    def __str__(self) -> str:
        return f"{self.key_id} {self.model} {self.hour_at:%Y-%m-%d %H}h"


class ScalingPoint(models.Model):
    """One point of a service's recorded series: what was wanted, what there was, and why."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="scaling")
    at = models.DateTimeField()
    desired = models.PositiveIntegerField()
    #: Replicas that hold devices, and those of them that answer.
    replicas = models.PositiveIntegerField()
    ready = models.PositiveIntegerField()
    #: Of the metric, in thousandths: over the stable window, over the panic window, the target.
    value_milli = models.PositiveBigIntegerField(null=True, blank=True)
    panic_value_milli = models.PositiveBigIntegerField(null=True, blank=True)
    target_milli = models.PositiveBigIntegerField(default=0)
    in_flight = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    #: Over the stable window: requests a second in thousandths, and a request's mean milliseconds.
    rate_milli = models.PositiveBigIntegerField(default=0)
    latency_ms = models.PositiveIntegerField(null=True, blank=True)
    panicking = models.BooleanField(default=False)
    cause = models.CharField(max_length=16, blank=True)

    class Meta:
        indexes = [models.Index(name="scaling_by_workload", fields=["workload", "at"])]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.desired}"


class ServiceLatency(models.Model):
    """How long a service's answers took, in one minute or, once that is old, one hour."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="latencies")
    at = models.DateTimeField()
    hourly = models.BooleanField(default=False)
    #: Pairs of (class, count), see core/latencies.py: to the first byte, and to the last.
    first = models.JSONField(default=list)
    whole = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="service_latency_unique", fields=["workload", "at", "hourly"]
            ),
        ]
        indexes = [models.Index(name="service_latency_by_age", fields=["hourly", "at"])]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.at:%Y-%m-%d %H:%M}"
