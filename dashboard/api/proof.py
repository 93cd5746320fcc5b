"""Runs of the verifications: asked for, followed, cancelled. For system admins; others find nothing."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.management.verify import runner
from scheduler.management.verify.registry import VERIFICATIONS
from scheduler.operations import verifications as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound
from scheduler.queries import verifications as queries

router = Router(tags=["Verifications"])


class ResultOut(Schema):
    """One verification of a run: how many of its checks passed, of how many."""

    id: int
    number: str
    title: str
    status: str
    started_at: datetime | None
    took_s: int | None
    trouble: str
    passed: int
    checks: int


class VerificationRunOut(Schema):
    """One run."""

    id: int
    layout: str
    requested_by: str
    cancelled_by: str
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    status: str
    trouble: str
    results: list[ResultOut]


class LineOut(Schema):
    """One line of a run, in the caller's language. A check has all fields."""

    id: int
    result_id: int
    at: datetime
    kind: str
    text: str
    expected: str
    seen: str
    where: str
    passed: bool


class RunIn(Strict):
    """Which verifications are to be run, and on which cards."""

    numbers: list[str] = Field(min_length=1, max_length=len(VERIFICATIONS))
    layout: str = Field("card", max_length=20)


@router.get("", response={200: lists.Page[VerificationRunOut], **READS}, summary="List runs")
def list_runs(request: HttpRequest) -> lists.Page[VerificationRunOut]:
    """The newest first."""
    _admins_only(request)
    return lists.Page[VerificationRunOut](
        items=[VerificationRunOut.from_orm(row) for row in queries.list_runs()]
    )


@router.post("", response={201: VerificationRunOut, **WRITES}, summary="Ask for a run")
def start(request: HttpRequest, body: RunIn) -> Status[VerificationRunOut]:
    """One runs at a time, on a pool of its own that nobody else sees."""
    _admins_only(request)
    made = runner.ask_for(
        numbers=body.numbers,
        layout=body.layout,
        url=request.build_absolute_uri("/").rstrip("/"),
        authority=who(request).authority,
    )
    return Status(201, _find(made.pk))


@router.get("/{run_id}", response={200: VerificationRunOut, **READS}, summary="Read a run")
def read_run(request: HttpRequest, run_id: int) -> VerificationRunOut:
    """Where it stands."""
    _admins_only(request)
    return _find(run_id)


@router.get(
    "/{run_id}/lines", response={200: lists.Page[LineOut], **READS}, summary="Lines of a run"
)
def list_lines(
    request: HttpRequest, run_id: int, after: int = param.Query(0, ge=0, le=2**62)
) -> lists.Page[LineOut]:
    """What was expected and seen, the oldest first; ``after``: only what came later."""
    _admins_only(request)
    _find(run_id)
    rows = queries.list_lines(run_id=run_id, after_id=after, output=False)
    return lists.Page[LineOut](items=[LineOut.from_orm(row) for row in rows])


@router.post("/{run_id}/cancel", response={200: VerificationRunOut, **WRITES}, summary="End a run")
def cancel(request: HttpRequest, run_id: int) -> VerificationRunOut:
    """Its pool is removed as after any run."""
    _admins_only(request)
    operations.cancel_run(run_id=run_id, authority=who(request).authority, now=timezone.now())
    return _find(run_id)


def _find(run_id: int) -> VerificationRunOut:
    found = queries.read_run(run_id=run_id)
    if found is None:
        raise NotFound("run")
    return VerificationRunOut.from_orm(found)


def _admins_only(request: HttpRequest) -> None:
    if not who(request).authority.may(Action.NODES):
        raise NotFound("run")
