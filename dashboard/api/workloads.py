"""Workloads: list, submit, try out, stop, start, delete, why it waits, what it printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router
from ninja.params import functions as param
from ninja.responses import Status

from dashboard import output, problems
from dashboard.api import conditions, lists, once
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.pools import pool_named
from dashboard.api.shapes import ReasonOut
from dashboard.api.submission import BatchIn, SubmissionIn
from dashboard.api.workload_shapes import (
    EstimateOut,
    ExplanationOut,
    LogOut,
    PreviewOut,
    PriorityIn,
    RemedyOut,
    TimeOut,
    WorkloadDetailOut,
    WorkloadOut,
    WorkloadQuery,
)
from scheduler.core.instants import from_us
from scheduler.core.vocabulary import Kind
from scheduler.operations import hypothetical, idle, services, submissions
from scheduler.operations import workloads as operations
from scheduler.operations.refused import NotFound, SubmitRefused
from scheduler.queries import estimates, outputs, remedies, what_if
from scheduler.queries import workloads as queries

router = Router(tags=["Workloads"])


@router.get("", response={200: lists.Page[WorkloadOut], **READS}, summary="List workloads")
def list_workloads(request: HttpRequest, query: Query[WorkloadQuery]) -> lists.Page[WorkloadOut]:
    """The newest first unless sorted otherwise."""
    page = queries.list_workloads(
        visible=who(request).visible,
        pool_name=pool_named(request, query.pool).name if query.pool else "",
        wanted=queries.WorkloadFilter(
            project_id=query.project_id,
            phase=query.phase or "",
            kind=query.kind or "",
            text=query.q,
            sort=query.sort,
            after=query.after,
            limit=query.limit,
        ),
    )
    return lists.Page[WorkloadOut](
        items=[WorkloadOut.of(row) for row in page.rows],
        next=page.next_after or None,
        total=page.total,
    )


@router.post("", response={201: WorkloadDetailOut, **WRITES}, summary="Submit a workload")
def submit(
    request: HttpRequest,
    response: HttpResponse,
    given: SubmissionIn,
    key: str = param.Header("", alias="Idempotency-Key", max_length=200),
) -> Status[WorkloadDetailOut]:
    """Submitted twice with one Idempotency-Key, it is there once: the second answer is the first's."""
    workload_id = once.act_once(request, key=key, given=given, act=lambda: _submit(request, given))
    response["Location"] = f"/api/v1/workloads/{workload_id}"
    return Status(201, WorkloadDetailOut.of_detail(_find(request, workload_id)))


@router.post("/batch", response={201: list[WorkloadDetailOut], **WRITES}, summary="Submit several")
def submit_batch(request: HttpRequest, given: BatchIn) -> Status[list[WorkloadDetailOut]]:
    """All of them or none; a problem's ``unit`` is the name of the one that it is about."""
    made = []
    with transaction.atomic():
        for each in given.workloads:
            try:
                made.append(_submit(request, each))
            except SubmitRefused as refused:
                named = [replace(problem, unit=each.name) for problem in refused.problems]
                raise SubmitRefused(named) from refused
    return Status(201, [WorkloadDetailOut.of_detail(_find(request, each)) for each in made])


@router.post("/preview", response={200: PreviewOut, **WRITES}, summary="Try a submission out")
def preview(request: HttpRequest, given: SubmissionIn) -> PreviewOut:
    """What the next cycle would do with it, for who may submit it. Nothing is written."""
    submission = given.named()
    submission = operations.try_workload(
        project_id=given.project_id, submission=submission, authority=who(request).authority
    )
    pool_id = pool_named(request, given.pool).id
    found = what_if.preview_submission(
        visible=who(request).visible,
        pool_id=pool_id,
        asked=hypothetical.as_asked(
            submission=submission,
            scaling=given.as_scaling(),
            project_id=given.project_id,
            now=timezone.now(),
        ),
        now=timezone.now(),
    )
    if found is None:
        raise NotFound("project")
    warnings = submissions.find_warnings(
        submission=submission, project_id=given.project_id, pool_id=pool_id
    )
    return PreviewOut.of(found, warnings=[problems.in_words(each) for each in warnings])


@router.get("/{workload_id}", response={200: WorkloadDetailOut, **READS}, summary="One workload")
def workload(
    request: HttpRequest, response: HttpResponse, workload_id: lists.Id
) -> WorkloadDetailOut:
    """In full, with its timeline. The ETag is that of what can be edited."""
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return WorkloadDetailOut.of_detail(found)


@router.get(
    "/{workload_id}/explanation",
    response={200: ExplanationOut, **READS},
    summary="Why it waits, and what would make it run",
)
def explanation(request: HttpRequest, workload_id: lists.Id) -> ExplanationOut:
    """Each way out was tried on the scheduler's core; this may take some seconds."""
    found = _find(request, workload_id)
    ways = remedies.list_remedies(
        visible=who(request).visible, workload_id=workload_id, now=timezone.now()
    )
    estimate = estimates.read_estimate(
        visible=who(request).visible, workload_id=workload_id, now=timezone.now()
    )
    return ExplanationOut(
        reason=ReasonOut.of(found.row.reason),
        would_run=[RemedyOut.of(each) for each in ways or ()],
        estimate=None if estimate is None else EstimateOut.from_orm(estimate),
    )


@router.get("/{workload_id}/log", response={200: LogOut, **READS}, summary="What it printed")
def log(
    request: HttpRequest,
    workload_id: lists.Id,
    replica: int = param.Query(0, ge=0, le=100_000),
    offset: int | None = param.Query(
        None, ge=0, le=2**62, description="None: the end of the output."
    ),
    attempt: int | None = param.Query(
        None, ge=1, le=2**31, description="Which run; None: the newest."
    ),
) -> LogOut:
    """A piece from ``offset``, or the last lines. Follow it by asking on from ``next_offset``."""
    found = outputs.list_outputs(visible=who(request).visible, workload_id=workload_id)
    if found is None:
        raise NotFound("workload")
    of = outputs.find_output(found, ordinal=replica, attempt=attempt)
    if of is None:
        raise NotFound("replica")
    piece = output.read_piece(of, offset=offset)
    return LogOut(
        text=piece.text,
        offset=piece.offset,
        next_offset=piece.next_offset,
        size_bytes=piece.size_bytes,
        ended=of.ended_at is not None,
        attempt=of.attempt,
        cut_from=piece.cut_from,
        cut_to=piece.cut_to,
        times=[TimeOut(offset=at, at=from_us(ms * 1000)) for at, ms in piece.times],
    )


@router.post(
    "/{workload_id}/stop", response={202: WorkloadDetailOut, **WRITES}, summary="Stop a workload"
)
def stop(request: HttpRequest, workload_id: lists.Id) -> Status[WorkloadDetailOut]:
    """SIGTERM, its grace, SIGKILL."""
    return Status(202, _act(request, workload_id, operations.stop_workload))


@router.post(
    "/{workload_id}/start", response={202: WorkloadDetailOut, **WRITES}, summary="Start it again"
)
def start(request: HttpRequest, workload_id: lists.Id) -> Status[WorkloadDetailOut]:
    """Let an ended workload wait for its turn again."""
    return Status(202, _act(request, workload_id, operations.start_workload))


@router.post(
    "/{workload_id}/keep", response={200: WorkloadDetailOut, **WRITES}, summary="Keep idle work"
)
def keep(request: HttpRequest, workload_id: lists.Id) -> WorkloadDetailOut:
    """Set its idle clock back."""
    return _act(request, workload_id, idle.keep_workload)


@router.delete("/{workload_id}", response={204: None, **WRITES}, summary="Delete a workload")
def delete(request: HttpRequest, workload_id: lists.Id) -> Status[None]:
    """A running one is stopped first. Its hours stay in the ledger."""
    operations.delete_workload(
        workload_id=workload_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.put(
    "/{workload_id}/priority",
    response={200: WorkloadDetailOut, **WRITES},
    summary="Change its priority",
)
def change_priority(
    request: HttpRequest,
    response: HttpResponse,
    workload_id: lists.Id,
    given: PriorityIn,
    if_match: str = param.Header("", alias="If-Match", max_length=200),
) -> WorkloadDetailOut:
    """With If-Match it is refused (412) where someone else has changed it since you read it."""
    conditions.require_match(_etag(_find(request, workload_id)), given=if_match)
    operations.change_priority(
        workload_id=workload_id,
        priority=given.priority,
        preemptible=given.preemptible,
        authority=who(request).authority,
        now=timezone.now(),
    )
    found = _find(request, workload_id)
    response["ETag"] = _etag(found)
    return WorkloadDetailOut.of_detail(found)


def _submit(request: HttpRequest, given: SubmissionIn) -> int:
    """Submit a workload, or a service; return its id."""
    submission = given.named()
    pool_id, authority = pool_named(request, given.pool).id, who(request).authority
    if submission.kind is Kind.INFERENCE:
        return services.submit_service(
            project_id=given.project_id,
            pool_id=pool_id,
            submission=submission,
            scaling=given.as_scaling(),
            authority=authority,
            now=timezone.now(),
        ).pk
    return operations.submit_workload(
        project_id=given.project_id,
        pool_id=pool_id,
        submission=submission,
        authority=authority,
        now=timezone.now(),
    ).pk


def _find(request: HttpRequest, workload_id: int) -> queries.WorkloadDetail:
    found = queries.read_workload(visible=who(request).visible, workload_id=workload_id)
    if found is None:
        raise NotFound("workload")
    return found


def _act(
    request: HttpRequest, workload_id: int, operation: Callable[..., object]
) -> WorkloadDetailOut:
    operation(workload_id=workload_id, authority=who(request).authority, now=timezone.now())
    return WorkloadDetailOut.of_detail(_find(request, workload_id))


def _etag(found: queries.WorkloadDetail) -> str:
    return conditions.etag(found.row.priority, found.row.preemptible, found.preemptible_set)
