"""Requests to serve: who may not put a model into service asks, who may decides. The trail is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduler import models
from scheduler.core.autoscale import Metric
from scheduler.core.vocabulary import Kind
from scheduler.operations import audit, notices, services, submissions
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, StateRefused, SubmitRefused
from scheduler.operations.services import Scaling
from scheduler.operations.submissions import Submission

Status = models.ServeRequest.Status


@transaction.atomic
def ask_to_serve(
    *,
    project_id: int,
    pool_id: int,
    submission: Submission,
    scaling: Scaling,
    comment: str,
    tell: Iterable[str],
    authority: Authority,
    now: datetime,
) -> models.ServeRequest:
    """Keep a service that is asked for; ``tell`` are those who may decide.

    Raises:
        NotFound: no such project or pool for the caller.
        NotPermitted: the caller may not even experiment there.
        SubmitRefused: fields that would be refused on approval too.
    """
    project = _find_project(project_id, authority)
    if not authority.may(Action.WORK, project_id=project.pk, department_id=project.department_id):
        raise NotPermitted(
            f"Your role may only look at {project.name}. Ask an admin of it for the role of a "
            "researcher.",
            code="work_is_view_only",
            target=project,
            params={"project": project.name},
        )
    pool = models.NodePool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    submission = replace(submission, kind=Kind.INFERENCE)
    problems = [
        *submissions.find_problems(submission=submission),
        *services.find_scaling_problems(
            scaling=scaling,
            min_replicas=submission.min_replicas,
            max_replicas=submission.max_replicas,
        ),
    ]
    if problems:
        raise SubmitRefused(problems)
    request = models.ServeRequest.objects.create(
        project=project,
        pool=pool,
        name=submission.name,
        submission=asdict(submission),
        scaling=asdict(scaling),
        comment=comment.strip()[:500],
        requested_by=authority.name,
        requested_at=now,
    )
    _record(authority, now, "serve_request.ask", request, reason=request.comment)
    for username in sorted(set(tell) - {authority.name}):
        _tell(username, "serve_requested", request, now)
    return request


@transaction.atomic
def approve_request(
    *, request_id: int, answer: str, authority: Authority, now: datetime
) -> models.ServeRequest:
    """Create the service in the name of who approves, with the requester on record.

    Raises:
        NotFound, NotPermitted: who may not serve there decides nothing.
        StateRefused: it has been decided already.
        SubmitRefused: the service can't be created as it was asked for, such as by its name.
    """
    request = _lock(request_id, authority)
    _require_serve(authority, request.project)
    _require_open(request)
    made = services.submit_service(
        project_id=request.project_id,
        pool_id=request.pool_id,
        submission=submissions.from_json(request.submission),
        scaling=scaling_of(request.scaling),
        authority=authority,
        now=now,
    )
    models.WorkloadEvent.objects.create(
        workload=made, at=now, code="requested", params={"by": request.requested_by}
    )
    request.workload = made
    return _decide(request, Status.APPROVED, "serve_request.approve", answer, authority, now)


@transaction.atomic
def decline_request(
    *, request_id: int, answer: str, authority: Authority, now: datetime
) -> models.ServeRequest:
    """Decline, with the reason for who asked.

    Raises:
        NotFound, NotPermitted, StateRefused: as for an approval.
        SubmitRefused: there is no reason given.
    """
    request = _lock(request_id, authority)
    _require_serve(authority, request.project)
    _require_open(request)
    if not answer.strip():
        raise SubmitRefused(
            [
                Problem(
                    field="answer",
                    code="say_why",
                    message="Say why it is declined, so that it can be asked for better.",
                )
            ]
        )
    return _decide(request, Status.DECLINED, "serve_request.decline", answer, authority, now)


@transaction.atomic
def withdraw_request(
    *, request_id: int, authority: Authority, now: datetime
) -> models.ServeRequest:
    """Take one's own request back.

    Raises:
        NotFound, NotPermitted: it is someone else's.
        StateRefused: it has been decided already.
    """
    request = _lock(request_id, authority)
    if request.requested_by != authority.name:
        raise NotPermitted(
            "Only who asked can withdraw a request.", code="not_ones_request", target=request
        )
    _require_open(request)
    request.status = Status.WITHDRAWN
    request.decided_at = now
    request.save(update_fields=["status", "decided_at"])
    _record(authority, now, "serve_request.withdraw", request)
    return request


def scaling_of(data: Mapping[str, Any]) -> Scaling:
    """Return the scaling that was kept."""
    metric = data.get("metric")
    names = tuple(data.get("model_names") or ())
    return Scaling(**{**data, "metric": Metric(metric) if metric else None, "model_names": names})


def _find_project(project_id: int, authority: Authority) -> models.Project:
    project = models.Project.objects.filter(pk=project_id, deleted_at=None).first()
    if project is None or not authority.sees_project(
        project_id=project.pk, department_id=project.department_id
    ):
        raise NotFound("project")
    return project


def _lock(request_id: int, authority: Authority) -> models.ServeRequest:
    request = (
        models.ServeRequest.objects.select_for_update(of=("self",))
        .select_related("project")
        .filter(pk=request_id)
        .first()
    )
    if request is None or not authority.sees_project(
        project_id=request.project_id, department_id=request.project.department_id
    ):
        raise NotFound("request")
    return request


def _require_serve(authority: Authority, project: models.Project) -> None:
    if not authority.may(Action.SERVE, project_id=project.pk, department_id=project.department_id):
        raise NotPermitted(
            f"Your role may not put models into service in {project.name}, so it may not decide.",
            code="may_not_decide",
            target=project,
            params={"project": project.name},
        )


def _require_open(request: models.ServeRequest) -> None:
    if request.status != Status.OPEN:
        raise StateRefused(
            [
                Problem(
                    field="state",
                    code="decided_already",
                    message=f"The request for {request.name} has been decided already.",
                    params={"name": request.name},
                )
            ]
        )


def _decide(
    request: models.ServeRequest,
    status: Status,
    action: str,
    answer: str,
    authority: Authority,
    now: datetime,
) -> models.ServeRequest:
    request.status = status
    request.decided_by = authority.name
    request.decided_at = now
    request.answer = answer.strip()[:500]
    request.save()
    _record(authority, now, action, request, reason=request.answer)
    code = "serve_approved" if status is Status.APPROVED else "serve_declined"
    _tell(request.requested_by, code, request, now)
    return request


def _record(
    authority: Authority,
    now: datetime,
    action: str,
    request: models.ServeRequest,
    *,
    reason: str = "",
) -> None:
    audit.record(
        authority=authority,
        now=now,
        action=action,
        target=request,
        after={"requested_by": request.requested_by, "status": str(request.status)},
        reason=reason,
    )


def _tell(username: str, code: str, request: models.ServeRequest, now: datetime) -> None:
    notices.tell(
        username=username,
        now=now,
        code=code,
        params={
            "name": request.name,
            "project": request.project.name,
            "by": request.decided_by or request.requested_by,
            "answer": request.answer,
        },
        workload=request.workload,
    )
