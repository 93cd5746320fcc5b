"""Services as pages show them: the list, one with its recorded series, gateway keys and their usage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, Q, QuerySet, Sum

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, Kind, Level, Phase, ReplicaPhase
from scheduler.queries import reasons, timeline
from scheduler.queries.visibility import Visibility

SERIES = timedelta(hours=1)
USAGE_DAYS = 30
SCALING_CODES = ("scaled", "draining", "cold_start", "waits", "gave_up", "failed_retrying")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """One line of the list."""

    id: int
    name: str
    project_name: str
    color: int
    phase: str
    models: tuple[str, ...]
    running: int
    desired: int
    min_replicas: int
    max_replicas: int
    metric: str
    threshold: int
    target_milli: int | None
    value_milli: int | None
    in_flight: int
    waiting: int
    rate_milli: int
    latency_ms: int | None
    cold_start_ms: int | None
    draining: int
    reason: reasons.Waiting | None

    @property
    def replicas(self) -> str:
        """Return running against what is asked for: "2/1-3", and "0/0-3" at zero."""
        if self.min_replicas == self.max_replicas:
            return f"{self.running}/{self.max_replicas}"
        return f"{self.running}/{self.min_replicas}-{self.max_replicas}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the recorded series."""

    at: datetime
    desired: int
    replicas: int
    ready: int
    value_milli: int | None
    in_flight: int
    waiting: int
    rate_milli: int
    latency_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a service scales, as it is set."""

    target_percent: int
    gauge_name: str
    gauge_path: str
    initial_replicas: int
    activation_replicas: int
    hard_limit: int
    stable_window_s: int
    zero_grace_s: int
    zero_retention_s: int
    scale_down_delay_s: int
    request_timeout_s: int
    drain_s: int
    waiting_limit: int
    open_to_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDetail:
    """One service in full."""

    row: ServiceRow
    project_id: int
    department_id: int
    terms: Terms
    points: tuple[Point, ...]
    log: tuple[timeline.TimelineRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One gateway key with its usage of the last thirty days."""

    id: int
    name: str
    prefix: str
    scope: str
    color: int | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    allowed_models: tuple[str, ...]
    requests_per_minute: int
    tokens_per_day: int
    budget_micro: int
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    cost_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What was used of one model through one key."""

    key_name: str
    project_name: str
    model: str
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    served_ms: int
    queued_ms: int
    cost_micro: int


def list_services(*, visible: Visibility) -> tuple[ServiceRow, ...]:
    """Return the reader's services that have not ended, by project and name. Four queries."""
    rows = list(
        _services(visible)
        .exclude(phase__in=[Phase.STOPPED, Phase.COMPLETED])
        .order_by("project__name", "name")
    )
    return tuple(_rows(rows))


def read_service(*, visible: Visibility, workload_id: int, now: datetime) -> ServiceDetail | None:
    """Return one service with its last hour, or None where there is none for the reader."""
    workload = _services(visible).filter(pk=workload_id).first()
    if workload is None:
        return None
    lines = timeline.list_timeline(visible=visible, workload=workload)
    points = models.ScalingPoint.objects.filter(workload=workload, at__gte=now - SERIES)
    return ServiceDetail(
        row=next(iter(_rows([workload]))),
        project_id=workload.project_id,
        department_id=workload.project.department_id,
        terms=_terms(_service_of(workload)),
        points=tuple(_point(point) for point in points.order_by("at")),
        log=tuple(line for line in lines if line.code in SCALING_CODES),
    )


def list_keys(*, visible: Visibility, now: datetime) -> tuple[KeyRow, ...]:
    """Return the keys of the reader's projects and departments, the newest first. Two queries."""
    condition = visible.projects(prefix="project__") & Q(project__isnull=False)
    rows = models.GatewayKey.objects.filter(
        condition | (Q(department__isnull=False) & visible.departments(prefix="department__"))
    )
    rows = rows.select_related("project", "department").order_by("-id").distinct()
    used = _sums(now)
    return tuple(_key(row, used.get(row.pk, {})) for row in rows)


def list_usage(*, visible: Visibility, now: datetime) -> tuple[UsageRow, ...]:
    """Return the last thirty days by key, project and model, the dearest first. One query."""
    rows: Any = (
        models.GatewayUsage.objects.filter(
            visible.projects(prefix="project__"), hour_at__gte=now - timedelta(days=USAGE_DAYS)
        )
        .values("key__name", "project__name", "model")
        .annotate(**{f"sum_{name}": Sum(name) for name in _COUNTS})
    )
    dearest = sorted(rows, key=lambda row: (-row["sum_cost_micro"], -row["sum_requests"]))
    return tuple(
        UsageRow(
            key_name=row["key__name"],
            project_name=row["project__name"],
            model=row["model"],
            **{name: row[f"sum_{name}"] for name in _COUNTS},
        )
        for row in dearest
    )


_COUNTS = (
    "requests",
    "errors",
    "input_tokens",
    "output_tokens",
    "served_ms",
    "queued_ms",
    "cost_micro",
)


def _services(visible: Visibility) -> QuerySet[models.Workload]:
    return models.Workload.objects.filter(
        visible.projects(prefix="project__"), kind=Kind.INFERENCE, deleted_at__isnull=True
    ).select_related("project__department", "service")


def _service_of(workload: models.Workload) -> models.InferenceService:
    return getattr(workload, "service", None) or models.InferenceService(workload=workload)


def _rows(workloads: Sequence[models.Workload]) -> Iterable[ServiceRow]:
    ids = [workload.pk for workload in workloads]
    running: dict[int, int] = defaultdict(int)
    alive = models.Replica.objects.filter(workload__in=ids, phase=ReplicaPhase.RUNNING)
    for workload_id in alive.values_list("workload_id", flat=True):
        running[workload_id] += 1
    points = _last_points(ids)
    for workload in workloads:
        yield _row(workload, running[workload.pk], points.get(workload.pk))


def _last_points(ids: Sequence[int]) -> dict[int, models.ScalingPoint]:
    newest = (
        models.ScalingPoint.objects.filter(workload__in=ids)
        .values("workload_id")
        .annotate(last=Max("id"))
        .values_list("last", flat=True)
    )
    points = models.ScalingPoint.objects.filter(pk__in=list(newest))
    return {point.workload_id: point for point in points}


def _row(workload: models.Workload, running: int, point: models.ScalingPoint | None) -> ServiceRow:
    service = _service_of(workload)
    waits = bool(workload.reason_code) and Phase(workload.phase) not in END_PHASES
    at_department = workload.reason.get("level") == Level.DEPARTMENT
    queue = workload.project.department.name if at_department else workload.project.name
    return ServiceRow(
        id=workload.pk,
        name=workload.name,
        project_name=workload.project.name,
        color=workload.project.color,
        phase=workload.phase,
        models=tuple(service.model_names) or (workload.name,),
        running=running,
        desired=workload.desired_replicas,
        min_replicas=workload.min_replicas,
        max_replicas=workload.max_replicas,
        metric=service.metric,
        threshold=service.threshold,
        target_milli=point.target_milli if point else None,
        value_milli=point.value_milli if point else None,
        in_flight=point.in_flight if point else 0,
        waiting=point.waiting if point else 0,
        rate_milli=point.rate_milli if point else 0,
        latency_ms=point.latency_ms if point else None,
        cold_start_ms=service.last_cold_start_ms,
        draining=len(service.draining),
        reason=reasons.why_waiting(code=workload.reason_code, numbers=workload.reason, queue=queue)
        if waits
        else None,
    )


def _terms(service: models.InferenceService) -> Terms:
    return Terms(**{name: getattr(service, name) for name in Terms.__slots__})


def _point(point: models.ScalingPoint) -> Point:
    return Point(**{name: getattr(point, name) for name in Point.__slots__})


def _sums(now: datetime) -> dict[int, dict[str, int]]:
    rows = models.GatewayUsage.objects.filter(hour_at__gte=now - timedelta(days=USAGE_DAYS))
    names = ("requests", "errors", "input_tokens", "output_tokens", "cost_micro")
    sums: Any = rows.values("key_id").annotate(**{f"sum_{name}": Sum(name) for name in names})
    return {row["key_id"]: {name: row[f"sum_{name}"] for name in names} for row in sums}


def _key(row: models.GatewayKey, used: dict[str, int]) -> KeyRow:
    scope = row.project.name if row.project else row.department.name if row.department else ""
    return KeyRow(
        id=row.pk,
        name=row.name,
        prefix=row.prefix,
        scope=scope,
        color=row.project.color if row.project else None,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        allowed_models=tuple(row.allowed_models),
        requests_per_minute=row.requests_per_minute,
        tokens_per_day=row.tokens_per_day,
        budget_micro=row.budget_micro,
        requests=used.get("requests", 0),
        errors=used.get("errors", 0),
        input_tokens=used.get("input_tokens", 0),
        output_tokens=used.get("output_tokens", 0),
        cost_micro=used.get("cost_micro", 0),
    )
