"""Inference services: the list, one with its recorded series, how it scales."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from pydantic import Field

from dashboard.api import conditions, lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.shapes import ReasonOut
from dashboard.api.submission import ScalingIn
from scheduler.operations import services as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import services as queries

router = Router(tags=["Services"])


class ServiceOut(Schema):
    """One service. ``replicas``: running against what is asked for, such as "2/1-3"."""

    id: int
    name: str
    project: str
    phase: str
    models: list[str]
    replicas: str
    running: int
    desired: int
    min_replicas: int
    max_replicas: int
    metric: str
    threshold: int
    in_flight: int
    waiting: int
    rate_milli: int
    latency_ms: int | None
    cold_start_ms: int | None
    reason: ReasonOut | None

    @staticmethod
    def of(row: queries.ServiceRow) -> ServiceOut:
        """Return a service as it is answered."""
        names = set(ServiceOut.model_fields) - {"project", "reason", "models"}
        return ServiceOut(
            **{name: getattr(row, name) for name in names},
            project=row.project_name,
            models=list(row.models),
            reason=ReasonOut.of(row.reason),
        )


class PointOut(Schema):
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


class ServiceDetailOut(ServiceOut):
    """One service with the last hour of its series, and how it scales."""

    scaling: dict[str, object]
    points: list[PointOut]


class ChangeScalingIn(ScalingIn):
    """The whole of how a service scales; what is left out has its default."""

    min_replicas: int = Field(ge=0, le=1024)
    max_replicas: int = Field(ge=0, le=1024)


@router.get("", response={200: lists.Page[ServiceOut], **READS}, summary="List services")
def list_services(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[ServiceOut]:
    """By project and name, those that have not ended."""
    found = queries.list_services(visible=who(request).visible)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[ServiceOut](
        items=[ServiceOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.get("/{workload_id}", response={200: ServiceDetailOut, **READS}, summary="One service")
def service(
    request: HttpRequest, response: HttpResponse, workload_id: lists.Id
) -> ServiceDetailOut:
    """Its id is that of its workload. The ETag is that of how it scales."""
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return _out(found)


@router.put(
    "/{workload_id}/scaling", response={200: ServiceDetailOut, **WRITES}, summary="Change scaling"
)
def change_scaling(
    request: HttpRequest,
    response: HttpResponse,
    workload_id: lists.Id,
    given: ChangeScalingIn,
    if_match: str = param.Header("", alias="If-Match", max_length=200),
) -> ServiceDetailOut:
    """With If-Match it is refused (412) where someone else has changed it since you read it."""
    conditions.require_match(_etag(_find(request, workload_id)), given=if_match)
    operations.change_scaling(
        workload_id=workload_id,
        min_replicas=given.min_replicas,
        max_replicas=given.max_replicas,
        scaling=given.as_scaling(),
        authority=who(request).authority,
        now=timezone.now(),
    )
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return _out(found)


def _find(request: HttpRequest, workload_id: int) -> queries.ServiceDetail:
    found = queries.read_service(
        visible=who(request).visible, workload_id=workload_id, now=timezone.now()
    )
    if found is None:
        raise NotFound("service")
    return found


def _out(found: queries.ServiceDetail) -> ServiceDetailOut:
    return ServiceDetailOut(
        **ServiceOut.of(found.row).model_dump(),
        scaling=asdict(found.terms),
        points=[PointOut.from_orm(point) for point in found.points],
    )


def _etag(found: queries.ServiceDetail) -> str:
    row = found.row
    return conditions.etag(
        row.min_replicas, row.max_replicas, row.metric, row.threshold, row.models, found.terms
    )
