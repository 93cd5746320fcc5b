"""What the gateway routes by: services with their replicas that answer, and keys by their digest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Sum
from django.utils import translation

from scheduler import models
from scheduler.core.autoscale import Metric
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.queries.prices import prices_at
from scheduler.queries.reasons_for import why_for
from scheduler.queries.settings import read_settings
from scheduler.queries.visibility import Visibility

NANO = 10**9
#: Services that are offered: also at zero, also while they fail.
OFFERED_PHASES = (
    Phase.PENDING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.DEGRADED,
    Phase.STOPPING,
    Phase.FAILED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A replica that answers and gets requests."""

    replica_id: int
    host: str
    port: int
    #: What its devices cost, in billionths of the currency a second.
    cost_nano_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One service."""

    workload_id: int
    name: str
    project_id: int
    project_name: str
    department_id: int
    models: tuple[str, ...]
    open_to_all: bool
    endpoints: tuple[Endpoint, ...]
    created_at_s: int
    #: Requests let into one replica; 0: no bound.
    hard_limit: int
    waiting_limit: int
    request_timeout_s: int
    #: Where its own number stands on a replica's metrics page; empty: nowhere.
    gauge_name: str
    gauge_path: str
    #: It will not come up by itself: it has failed.
    failed: bool
    #: Why nothing answers, for the caller; empty where something does.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """A gateway key and what it has used so far. Times are the caller's to judge."""

    id: int
    name: str
    project_id: int | None
    department_id: int | None
    expires_at: datetime | None
    revoked: bool
    allowed_models: tuple[str, ...]
    requests_per_minute: int
    tokens_per_day: int
    budget_micro: int
    tokens_today: int
    spent_micro: int


def list_routes(*, visible: Visibility, now: datetime) -> tuple[Route, ...]:
    """Return all services that are offered, by id. Four queries."""
    workloads = list(
        models.Workload.objects.filter(
            visible.projects(prefix="project__"),
            kind=Kind.INFERENCE,
            deleted_at__isnull=True,
            phase__in=OFFERED_PHASES,
        )
        .select_related("project__department", "service")
        .order_by("id")
    )
    prices = prices_at(now)
    by_workload: dict[int, list[models.Replica]] = defaultdict(list)
    for replica in (
        models.Replica.objects.filter(
            workload__in=[w.pk for w in workloads],
            phase=ReplicaPhase.RUNNING,
            port__isnull=False,
            node__state=models.Node.State.READY,
        )
        .select_related("node")
        .order_by("id")
    ):
        by_workload[replica.workload_id].append(replica)
    with translation.override("en"):
        return tuple(_route(w, by_workload[w.pk], prices) for w in workloads)


def find_key(*, visible: Visibility, digest: str, now: datetime) -> KeyFacts | None:
    """Return the key of a digest with its use today and in all, or None. At most three queries."""
    row = models.GatewayKey.objects.filter(digest=digest).select_related("project").first()
    if row is None or not _is_visible(row, visible):
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    usage = models.GatewayUsage.objects.filter(key=row)
    tokens = spent = 0
    if row.tokens_per_day:
        sums = usage.filter(hour_at__gte=today).aggregate(
            taken=Sum("input_tokens"), made=Sum("output_tokens")
        )
        tokens = (sums["taken"] or 0) + (sums["made"] or 0)
    if row.budget_micro:
        spent = usage.aggregate(cost=Sum("cost_micro"))["cost"] or 0
    return KeyFacts(
        id=row.pk,
        name=row.name,
        project_id=row.project_id,
        department_id=row.department_id or (row.project.department_id if row.project else None),
        expires_at=row.expires_at,
        revoked=row.revoked_at is not None,
        allowed_models=tuple(row.allowed_models),
        requests_per_minute=row.requests_per_minute,
        tokens_per_day=row.tokens_per_day,
        budget_micro=row.budget_micro,
        tokens_today=tokens,
        spent_micro=spent,
    )


def _is_visible(row: models.GatewayKey, visible: Visibility) -> bool:
    return (
        visible.cluster
        or row.project_id in visible.project_ids
        or row.department_id in visible.department_ids
    )


def _route(
    row: models.Workload, replicas: Sequence[models.Replica], prices: dict[str, Decimal]
) -> Route:
    service = getattr(row, "service", None) or models.InferenceService(workload=row)
    draining = {int(replica_id) for replica_id in service.draining}
    leaving = row.stop_requested or row.phase == Phase.STOPPING
    endpoints = tuple(
        _endpoint(replica, prices)
        for replica in replicas
        if replica.pk not in draining and not leaving
    )
    return Route(
        workload_id=row.pk,
        name=row.name,
        project_id=row.project_id,
        project_name=row.project.name,
        department_id=row.project.department_id,
        models=tuple(str(name) for name in service.model_names) or (row.name,),
        open_to_all=service.open_to_all,
        endpoints=endpoints,
        created_at_s=int(row.submitted_at.timestamp()),
        hard_limit=service.hard_limit,
        waiting_limit=service.waiting_limit,
        request_timeout_s=service.request_timeout_s,
        gauge_name=service.gauge_name if service.metric == Metric.CUSTOM else "",
        gauge_path=service.gauge_path,
        failed=row.phase == Phase.FAILED,
        why="" if endpoints else _why(row),
    )


def _endpoint(replica: models.Replica, prices: dict[str, Decimal]) -> Endpoint:
    price = prices.get(replica.node.gpu_model, prices.get("", Decimal(0)))
    per_second = price * replica.mgpu * NANO / (WHOLE_GPU_MGPU * 3600)
    return Endpoint(
        replica_id=replica.pk,
        host=replica.host or "127.0.0.1",
        port=replica.port or 0,
        cost_nano_per_s=int(per_second),
    )


def _why(row: models.Workload) -> str:
    """Return why no replica answers, in words that name nobody else's work."""
    if row.phase == Phase.FAILED:
        said = str(row.failure.get("message") or "") or f"exit code {row.exit_code}"
        return f"The service has failed: {said}."
    if row.phase == Phase.PENDING and row.failures and row.failure.get("message"):
        return f"The last start failed: {row.failure['message']}."
    if row.phase == Phase.PENDING and row.reason_code:
        caller = Visibility(
            project_ids=frozenset({row.project_id}),
            hides_others=not read_settings().show_others_in_use,
        )
        return why_for(
            visible=caller, code=row.reason_code, numbers=row.reason, project=row.project
        ).text
    return "A replica is starting."
