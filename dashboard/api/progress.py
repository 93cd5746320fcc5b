"""What work reports of itself: by a running replica with a token of its own; read by who may see it."""

from __future__ import annotations

import math
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja import Router, Schema
from ninja.errors import HttpError
from ninja.responses import Status
from ninja.security import HttpBearer
from pydantic import Field, StrictFloat, StrictInt

from access import counting
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES, Unmet
from dashboard.api.submission import Strict
from scheduler.core.instants import from_us
from scheduler.operations import progress as operations
from scheduler.operations import replica_tokens
from scheduler.operations.refused import NotFound
from scheduler.queries import progress as queries

router = Router(tags=["Workloads"])

#: Reports a minute by one replica.
MOST_A_MINUTE = 120
_LARGEST = 2**53


class Replica(HttpBearer):
    """``Authorization: Bearer TOKEN``: what a running replica finds in TIDEGATE_PROGRESS_TOKEN."""

    def authenticate(self, request: HttpRequest, token: str) -> replica_tokens.Speaker:
        """Return the replica.

        Raises:
            Unmet: 401, no such token, or its attempt has ended.
            HttpError: 429 above so many reports a minute.
        """
        replica = replica_tokens.find_replica(token)
        if replica is None:
            said = _("Only a running replica may report here, with its TIDEGATE_PROGRESS_TOKEN.")
            raise Unmet("not_a_replica", said, status=401)
        used, left_s = counting.count(key=f"progress:{replica.replica_id}", window_s=60)
        if used > MOST_A_MINUTE:
            said = _("A replica may report {most} times a minute. Try again in {wait} s.")
            raise HttpError(429, said.format(most=MOST_A_MINUTE, wait=left_s))
        return replica


class ProgressIn(Strict):
    """How far it is; what is left out stays as it was. At most 20 different metrics a workload."""

    step: StrictInt | None = Field(None, ge=0, lt=_LARGEST)
    total: StrictInt | None = Field(None, ge=0, lt=_LARGEST)
    epoch: StrictInt | None = Field(None, ge=0, lt=_LARGEST)
    metrics: dict[str, StrictInt | StrictFloat] = Field(
        default={}, description="Finite numbers by name.", examples=[{"loss": 0.31}]
    )


class MetricPointOut(Schema):
    """A value, and when it was so."""

    at: datetime
    value: float


class SeriesOut(Schema):
    """One of its numbers over time, thinned: peaks are kept."""

    name: str
    points: list[MetricPointOut]


class RunOut(Schema):
    """One attempt; ``until`` null: it is still there."""

    attempt: int
    since: datetime
    until: datetime | None


class ProgressOut(Schema):
    """How far it is by its own word; null where it has not said.

    ``steps_a_second`` and ``left_s`` are those of the run that is on.
    """

    at: datetime | None
    step: int | None
    total: int | None
    epoch: int | None
    steps_a_second: float | None
    left_s: int | None
    runs: list[RunOut]
    steps: list[MetricPointOut]
    metrics: list[SeriesOut]


@router.get(
    "/{workload_id}/progress",
    response={200: ProgressOut, **READS},
    summary="How far it is",
    url_name="read_progress",
)
def read(request: HttpRequest, workload_id: lists.Id) -> ProgressOut:
    """Step and metrics as the workload reported them, kept after its end too."""
    found = queries.read_progress(visible=who(request).visible, workload_id=workload_id)
    if found is None:
        raise NotFound("workload")
    return ProgressOut(
        at=found.at,
        step=found.step,
        total=found.total,
        epoch=found.epoch,
        steps_a_second=found.steps_a_second,
        left_s=found.left_s,
        runs=[RunOut.from_orm(each) for each in found.runs],
        steps=[point for each in found.series if not each.name for point in _points(each)],
        metrics=[SeriesOut(name=each.name, points=_points(each)) for each in found.metrics],
    )


@router.post(
    "/{workload_id}/progress",
    auth=Replica(),
    response={204: None, **WRITES},
    summary="Report how far it is",
)
def report(request: HttpRequest, workload_id: lists.Id, given: ProgressIn) -> Status[None]:
    """For a running replica alone, with the token in its environment; of its own workload only."""
    replica = request.auth  # type: ignore[attr-defined]
    if replica.workload_id != workload_id:
        raise NotFound("workload")
    operations.report(
        workload_id=workload_id,
        given=operations.Report(
            at=timezone.now(),
            step=given.step,
            total=given.total,
            epoch=given.epoch,
            metrics=tuple((name, _as_float(value)) for name, value in given.metrics.items()),
        ),
    )
    return Status(204, None)


def _as_float(value: float) -> float:
    """Return it as a float; an integer beyond all floats is not finite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _points(series: queries.Series) -> list[MetricPointOut]:
    return [MetricPointOut(at=from_us(at_ms * 1000), value=value) for at_ms, value in series.points]
