"""Services as pages show them: the list, and one with its recorded series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, QuerySet

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, Kind, Phase, ReplicaPhase
from scheduler.queries import reasons, service_idle, service_latencies, timeline
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility

SERIES = timedelta(hours=1)
SCALING_CODES = (
    "scaled",
    "draining",
    "replaced",
    "drained",
    "cold_start",
    "waits",
    "gave_up",
    "failed_retrying",
)


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
        return running_of(self.running, self.min_replicas, self.max_replicas)

    @property
    def asleep(self) -> bool:
        """Test whether it is at zero, where it waits for requests and not for a place."""
        return self.phase == Phase.PENDING and self.desired == 0


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
    latencies: service_latencies.LatencyFigures
    cold_starts: service_latencies.ColdStarts
    idle: service_idle.IdleShare


def running_of(running: int, least: int, most: int) -> str:
    """Return running replicas against what is asked for: "2/1-3", "0/0-3" at zero, "1/1" without range."""
    asked = str(most) if least == most else f"{least}-{most}"
    return f"{running}/{asked}"


def list_services(*, visible: Visibility) -> tuple[ServiceRow, ...]:
    """Return the reader's services that have not ended, by project and name. Four queries."""
    rows = list(
        _services(visible)
        .exclude(phase__in=[Phase.STOPPED, Phase.COMPLETED])
        .order_by("project__name", "name")
    )
    return tuple(_rows(rows, visible))


def read_service(*, visible: Visibility, workload_id: int, now: datetime) -> ServiceDetail | None:
    """Return one service with its last hour, or None where there is none for the reader."""
    workload = _services(visible).filter(pk=workload_id).first()
    if workload is None:
        return None
    lines = timeline.list_timeline(visible=visible, workload=workload)
    points = models.ScalingPoint.objects.filter(workload=workload, at__gte=now - SERIES)
    return ServiceDetail(
        row=next(iter(_rows([workload], visible))),
        project_id=workload.project_id,
        department_id=workload.project.department_id,
        terms=_terms(_service_of(workload)),
        points=tuple(_point(point) for point in points.order_by("at")),
        log=tuple(line for line in lines if line.code in SCALING_CODES),
        latencies=service_latencies.read_latencies(workload_id=workload.pk, since=now - SERIES),
        cold_starts=service_latencies.read_cold_starts(workload_id=workload.pk, now=now),
        idle=service_idle.read_idle_share(workload_id=workload.pk, now=now),
    )


def _services(visible: Visibility) -> QuerySet[models.Workload]:
    return models.Workload.objects.filter(
        visible.projects(prefix="project__"), kind=Kind.INFERENCE, deleted_at__isnull=True
    ).select_related("project__department", "service")


def _service_of(workload: models.Workload) -> models.InferenceService:
    return getattr(workload, "service", None) or models.InferenceService(workload=workload)


def _rows(workloads: Sequence[models.Workload], visible: Visibility) -> Iterable[ServiceRow]:
    ids = [workload.pk for workload in workloads]
    running: dict[int, int] = defaultdict(int)
    alive = models.Replica.objects.filter(workload__in=ids, phase=ReplicaPhase.RUNNING)
    for workload_id in alive.values_list("workload_id", flat=True):
        running[workload_id] += 1
    points = _last_points(ids)
    for workload in workloads:
        yield _row(workload, running[workload.pk], points.get(workload.pk), visible)


def _last_points(ids: Sequence[int]) -> dict[int, models.ScalingPoint]:
    newest = (
        models.ScalingPoint.objects.filter(workload__in=ids)
        .values("workload_id")
        .annotate(last=Max("id"))
        .values_list("last", flat=True)
    )
    points = models.ScalingPoint.objects.filter(pk__in=list(newest))
    return {point.workload_id: point for point in points}


def _row(
    workload: models.Workload,
    running: int,
    point: models.ScalingPoint | None,
    visible: Visibility,
) -> ServiceRow:
    service = _service_of(workload)
    waits = bool(workload.reason_code) and Phase(workload.phase) not in END_PHASES
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
        reason=why_for(
            visible=visible,
            code=workload.reason_code,
            numbers=workload.reason,
            project=workload.project,
        )
        if waits
        else None,
    )


def _terms(service: models.InferenceService) -> Terms:
    return Terms(**{name: getattr(service, name) for name in Terms.__slots__})


def _point(point: models.ScalingPoint) -> Point:
    return Point(**{name: getattr(point, name) for name in Point.__slots__})
