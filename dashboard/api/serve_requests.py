"""Requests to serve: asked for, approved, declined or withdrawn."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from access.listing import names_who_may
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.pools import pool_named
from dashboard.api.submission import Strict, SubmissionIn
from scheduler.operations import serve_requests as operations
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound
from scheduler.queries import serve_requests as queries
from scheduler.queries import workloads

router = Router(tags=["Requests to serve"])


class ServeRequestOut(Schema):
    """One request and its trail. ``asked_mgpu``: by one replica, over its devices."""

    id: int
    name: str
    project_id: int
    project_name: str
    asked_mgpu: int
    replicas: str
    comment: str
    requested_by: str
    requested_at: datetime
    status: str
    decided_by: str
    decided_at: datetime | None
    answer: str
    workload_id: int | None


class AskIn(SubmissionIn):
    """The service that is asked for, and why."""

    comment: str = Field("", max_length=500)


class AnswerIn(Strict):
    """What one says to it; needed to decline."""

    answer: str = Field("", max_length=500)


class MadeOut(Schema):
    """What the request is now."""

    id: int
    status: str
    workload_id: int | None


@router.get("", response={200: lists.Page[ServeRequestOut], **READS}, summary="List requests")
def list_requests(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[ServeRequestOut]:
    """Those that wait for a decision first."""
    found = queries.list_requests(visible=who(request).visible)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[ServeRequestOut](
        items=[ServeRequestOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.post("", response={201: MadeOut, **WRITES}, summary="Ask to serve")
def ask(request: HttpRequest, given: AskIn) -> Status[MadeOut]:
    """Those who may decide are told."""
    caller = who(request)
    project = next(
        (
            each
            for each in workloads.list_projects(visible=caller.visible)
            if each.id == given.project_id
        ),
        None,
    )
    if project is None:
        raise NotFound("project")
    pool = pool_named(request, given.pool)
    made = operations.ask_to_serve(
        project_id=project.id,
        pool_id=pool.id,
        submission=given.named(),
        scaling=given.as_scaling(),
        comment=given.comment,
        tell=names_who_may(
            action=Action.SERVE, project_id=project.id, department_id=project.department_id
        ),
        authority=caller.authority,
        now=timezone.now(),
    )
    return Status(201, MadeOut(id=made.pk, status=made.status, workload_id=made.workload_id))


@router.post("/{request_id}/approve", response={200: MadeOut, **WRITES}, summary="Approve")
def approve(request: HttpRequest, request_id: lists.Id, given: AnswerIn) -> MadeOut:
    """The service is created in the name of who approves; the requester is on record."""
    made = operations.approve_request(
        request_id=request_id,
        answer=given.answer,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return MadeOut(id=made.pk, status=made.status, workload_id=made.workload_id)


@router.post("/{request_id}/decline", response={200: MadeOut, **WRITES}, summary="Decline")
def decline(request: HttpRequest, request_id: lists.Id, given: AnswerIn) -> MadeOut:
    """With a reason."""
    made = operations.decline_request(
        request_id=request_id,
        answer=given.answer,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return MadeOut(id=made.pk, status=made.status, workload_id=made.workload_id)


@router.post("/{request_id}/withdraw", response={200: MadeOut, **WRITES}, summary="Withdraw")
def withdraw(request: HttpRequest, request_id: lists.Id) -> MadeOut:
    """One's own."""
    made = operations.withdraw_request(
        request_id=request_id, authority=who(request).authority, now=timezone.now()
    )
    return MadeOut(id=made.pk, status=made.status, workload_id=made.workload_id)
