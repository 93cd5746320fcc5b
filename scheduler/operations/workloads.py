"""What people do with workloads: submit, stop, start, delete, change priority."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from scheduler import events, models
from scheduler.core.units import UNLIMITED_MGPU, format_gpu
from scheduler.core.vocabulary import END_PHASES, HOLDING_PHASES, Kind, Phase, is_preemptible
from scheduler.operations import asset_choice, audit, idle, notices, submissions
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, StateRefused, SubmitRefused
from scheduler.operations.submissions import Submission


def submit_workload(
    *,
    project_id: int,
    pool_id: int,
    submission: Submission,
    authority: Authority,
    now: datetime,
) -> models.Workload:
    """Accept a workload. It waits until the tick starts it.

    Raises:
        NotFound: no such project or pool for the caller.
        NotPermitted: the caller may not submit this kind there.
        SubmitRefused: fields that are wrong, each with the way out.
    """
    project = require_may_try(project_id=project_id, kind=submission.kind, authority=authority)
    pool = models.NodePool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    resolved = _resolve(submission, project, authority)
    submission = resolved.submission
    try:
        with transaction.atomic():
            workload = models.Workload.objects.create(
                project=project,
                pool=pool,
                submitted_at=now,
                submitted_by=authority.name,
                phase_since=now,
                **submissions.fields_of(submission),
                **_limits(submission, project),
            )
            for use in resolved.uses:
                use.workload = workload
                use.save()
            models.WorkloadEvent.objects.create(
                workload=workload, at=now, code="submitted", params={"by": authority.name}
            )
            audit.record(
                authority=authority,
                now=now,
                action="workload.submit",
                target=workload,
                after={
                    "kind": submission.kind,
                    "request_mgpu": submission.request_mgpu,
                    **({"assets": [str(use) for use in resolved.uses]} if resolved.uses else {}),
                },
            )
            events.wake_on_commit()
    except IntegrityError as error:
        taken = submissions.find_taken_name(project_id=project.pk, name=submission.name)
        if taken:
            raise SubmitRefused(taken) from error
        raise
    return workload


def try_workload(*, project_id: int, submission: Submission, authority: Authority) -> Submission:
    """Return a submission as it would be accepted, with what its environment fills in.

    Raises:
        NotFound, NotPermitted, SubmitRefused: as for submitting it.
    """
    project = require_may_try(project_id=project_id, kind=submission.kind, authority=authority)
    return _resolve(submission, project, authority).submission


def require_may_try(*, project_id: int, kind: Kind, authority: Authority) -> models.Project:
    """Return the project if the caller may submit this kind there, and so may try it out.

    Raises:
        NotFound, NotPermitted: as for a submission.
    """
    project = _find_project(project_id=project_id, authority=authority)
    _require(authority, kind, project)
    return project


def _resolve(
    submission: Submission, project: models.Project, authority: Authority
) -> asset_choice.Resolved:
    """Return a submission with its assets, or all that is wrong with it."""
    resolved = asset_choice.resolve(submission=submission, project=project, authority=authority)
    problems = submissions.find_problems(submission=resolved.submission)
    if problems or resolved.problems:
        raise SubmitRefused([*problems, *resolved.problems])
    return resolved


@transaction.atomic
def stop_workload(
    *, workload_id: int, authority: Authority, now: datetime, code: str = "by_user"
) -> models.Workload:
    """Ask for the end of a workload: SIGTERM, its grace, SIGKILL. Waiting ones stop at once.

    Raises:
        NotFound, NotPermitted: as for a submission.
        StateRefused: it has already ended.
    """
    workload = _lock(workload_id=workload_id, authority=authority)
    if Phase(workload.phase) in END_PHASES:
        raise StateRefused([_state_problem(workload, "has_ended", "has already ended")])
    if not workload.stop_requested:
        workload.stop_requested = True
        workload.stop_code = code
        workload.generation += 1
        _event(workload, now, "stop_requested", by=authority.name, code=code)
        audit.record(authority=authority, now=now, action="workload.stop", target=workload)
        _tell_stopped(workload, authority, now)
    if Phase(workload.phase) is Phase.PENDING:
        _end_waiting(workload, now)
    workload.save()
    events.wake_on_commit()
    return workload


def _tell_stopped(workload: models.Workload, authority: Authority, now: datetime) -> None:
    """Tell the owner that someone else ended it."""
    if workload.submitted_by != authority.name:
        by = {"by": authority.name}
        notices.tell_owner(workload=workload, code="work_stopped", params=by, now=now)


@transaction.atomic
def start_workload(*, workload_id: int, authority: Authority, now: datetime) -> models.Workload:
    """Let an ended workload wait for its turn again, with the same work and checkpoint directory."""
    workload = _lock(workload_id=workload_id, authority=authority)
    if Phase(workload.phase) not in END_PHASES:
        raise StateRefused([_state_problem(workload, "has_not_ended", "has not ended")])
    asset_choice.renew_secrets(workload)
    workload.phase = Phase.PENDING
    workload.phase_since = now
    workload.stop_requested = False
    workload.stop_code = ""
    workload.failures = 0
    workload.failure = {}
    workload.kept_at = None
    workload.idle_warned_percent = 0
    workload.backing_off_until = None
    workload.ended_at = None
    workload.reason_code = ""
    workload.reason = {}
    workload.generation += 1
    workload.save()
    _event(workload, now, "start_requested", by=authority.name)
    audit.record(authority=authority, now=now, action="workload.start", target=workload)
    events.wake_on_commit()
    return workload


@transaction.atomic
def delete_workload(*, workload_id: int, authority: Authority, now: datetime) -> models.Workload:
    """Remove a workload from view; a running one is stopped first. Its hours stay in the ledger."""
    workload = _lock(workload_id=workload_id, authority=authority)
    workload.delete_requested = True
    workload.generation += 1
    if Phase(workload.phase) is Phase.PENDING:
        workload.stop_requested = True
        _end_waiting(workload, now)
    if Phase(workload.phase) in END_PHASES:
        workload.deleted_at = now
    elif not workload.stop_requested:
        workload.stop_requested = True
        workload.stop_code = "deleted"
    workload.save()
    _event(workload, now, "delete_requested", by=authority.name)
    _tell_stopped(workload, authority, now)
    audit.record(authority=authority, now=now, action="workload.delete", target=workload)
    events.wake_on_commit()
    return workload


@transaction.atomic
def change_priority(
    *,
    workload_id: int,
    priority: int,
    preemptible: bool | None,
    authority: Authority,
    now: datetime,
) -> models.Workload:
    """Change priority and preemptibility, checked like an admission in the new form.

    Raises:
        SubmitRefused: out of range, or a workload that borrows would become non-preemptible.
    """
    workload = _lock(workload_id=workload_id, authority=authority)
    problems = submissions.priority_problems(priority)
    if problems:
        raise SubmitRefused(problems)
    becomes = is_preemptible(priority=priority, explicit=preemptible)
    if workload.preemptible and not becomes and Phase(workload.phase) in HOLDING_PHASES:
        _require_within_quota(workload)
    before = {"priority": workload.priority, "preemptible": workload.preemptible}
    workload.priority = priority
    workload.preemptible = becomes
    workload.preemptible_set = preemptible is not None
    workload.generation += 1
    workload.save()
    after = {"priority": priority, "preemptible": becomes}
    _event(workload, now, "priority_changed", by=authority.name, before=before, after=after)
    audit.record(
        authority=authority,
        now=now,
        action="workload.priority",
        target=workload,
        before=before,
        after=after,
    )
    events.wake_on_commit()
    return workload


def lock_for_work(*, workload_id: int, authority: Authority) -> models.Workload:
    """Return a workload, locked, for who may act on it.

    Raises:
        NotFound, NotPermitted.
    """
    return _lock(workload_id=workload_id, authority=authority)


def _find_project(*, project_id: int, authority: Authority) -> models.Project:
    project = models.Project.objects.filter(pk=project_id, deleted_at__isnull=True).first()
    if project is None or not authority.sees_project(
        project_id=project.pk, department_id=project.department_id
    ):
        raise NotFound("project")
    return project


def _lock(*, workload_id: int, authority: Authority) -> models.Workload:
    """Return the workload, locked, if it exists for the caller and the caller may act on it."""
    workload = (
        models.Workload.objects.select_for_update(of=("self",))
        .select_related("project")
        .filter(pk=workload_id, deleted_at__isnull=True)
        .first()
    )
    if workload is None or not authority.sees_project(
        project_id=workload.project_id, department_id=workload.project.department_id
    ):
        raise NotFound("workload")
    _require(authority, Kind(workload.kind), workload.project)
    return workload


def _require(authority: Authority, kind: Kind, project: models.Project) -> None:
    action = Action.SERVE if kind is Kind.INFERENCE else Action.WORK
    if not authority.may(action, project_id=project.pk, department_id=project.department_id):
        if action is Action.SERVE:
            raise NotPermitted(
                f"Your role may not put models into service in {project.name}. Send a request to "
                "serve: a project admin, an ML engineer or someone above of it decides.",
                code="serve_by_request",
                target=project,
                params={"project": project.name},
            )
        raise NotPermitted(
            f"Your role may only look at workspaces and trainings in {project.name}. Ask an admin "
            "of it for the role of a researcher.",
            code="work_is_view_only",
            target=project,
            params={"project": project.name},
        )


def _limits(submission: Submission, project: models.Project) -> dict[str, object]:
    """Return the rules on idle time and duration that are in force, copied into the workload."""
    fields = submissions.fields_of(submission)
    limits = idle.limits_for(
        project=project, kind=submission.kind, preemptible=bool(fields["preemptible"])
    )
    return {
        "idle_limit_s": limits.idle_limit_s,
        "runtime_limit_s": limits.runtime_limit_s,
        "owner_may_keep": limits.owner_may_keep,
    }


def _require_within_quota(workload: models.Workload) -> None:
    """Refuse a borrower that would become non-preemptible: checks 1 and 2 in the new form."""
    own = 0
    protected = 0
    alive = models.Replica.objects.exclude(phase="ended").filter(
        workload__project=workload.project, workload__pool=workload.pool
    )
    for row in alive.values("workload_id", "workload__preemptible", "mgpu"):
        if row["workload_id"] == workload.pk:
            own += row["mgpu"]
        elif not row["workload__preemptible"]:
            protected += row["mgpu"]
    quota = models.ProjectQuota.objects.filter(project=workload.project, pool=workload.pool).first()
    quota_mgpu = quota.quota_mgpu if quota else 0
    if quota_mgpu < UNLIMITED_MGPU and protected + own > quota_mgpu:
        raise SubmitRefused(
            [
                Problem(
                    field="preemptible",
                    code="borrower_stays_preemptible",
                    message=(
                        f"It holds {format_gpu(own)}, and work of {workload.project.name} that "
                        f"can't be interrupted holds {format_gpu(protected)} already, of a "
                        f"guarantee of {format_gpu(quota_mgpu)}. Leave “May be interrupted” at "
                        "yes, or raise the guarantee."
                    ),
                    params={"own": own, "protected": protected, "quota": quota_mgpu},
                )
            ]
        )


def _end_waiting(workload: models.Workload, now: datetime) -> None:
    workload.phase = Phase.STOPPED
    workload.phase_since = now
    workload.ended_at = now
    workload.reason_code = ""
    workload.reason = {}
    workload.nominations.all().delete()
    _event(workload, now, "stopped", code=workload.stop_code)


def _event(workload: models.Workload, now: datetime, event_code: str, /, **params: object) -> None:
    models.WorkloadEvent.objects.create(workload=workload, at=now, code=event_code, params=params)


def _state_problem(workload: models.Workload, code: str, what: str) -> Problem:
    return Problem(
        field="phase",
        code=code,
        message=f"{workload.name} {what}; it is {workload.phase}.",
        params={"name": workload.name},
    )
