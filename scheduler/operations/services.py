"""What people do with inference services: submit one with how it scales, and change that later."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from scheduler import events, models
from scheduler.core.autoscale import DEMAND_METRICS, Metric
from scheduler.core.vocabulary import END_PHASES, Kind, Phase
from scheduler.operations import audit, submissions, workloads
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, SubmitRefused

_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")
_GAUGE_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,119}")
DAY_S = 86_400
#: Failed starts after which a service is Failed; one that answered for a window begins anew.
MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a service scales and what its gateway lets through. Empty numbers take their defaults."""

    model_names: tuple[str, ...] = ()
    open_to_all: bool = False
    metric: Metric | None = None
    threshold: int = 100
    target_percent: int = 70
    gauge_name: str = ""
    gauge_path: str = "/metrics"
    #: Empty: the minimum, or 1 where that is 0.
    initial_replicas: int | None = None
    activation_replicas: int | None = None
    hard_limit: int = 0
    stable_window_s: int = 60
    zero_grace_s: int = 30
    zero_retention_s: int = 0
    scale_down_delay_s: int = 0
    request_timeout_s: int = 300
    drain_s: int = 120
    waiting_limit: int = 1000


def submit_service(
    *,
    project_id: int,
    pool_id: int,
    submission: submissions.Submission,
    scaling: Scaling,
    authority: Authority,
    now: datetime,
) -> models.Workload:
    """Accept an inference service.

    Raises:
        NotFound, NotPermitted, SubmitRefused: as for any workload.
    """
    submission = replace(
        submission,
        kind=Kind.INFERENCE,
        max_attempts=MAX_ATTEMPTS if submission.max_attempts is None else submission.max_attempts,
    )
    low, high = submission.min_replicas, submission.max_replicas
    problems = [
        *submissions.find_problems(submission=submission),
        *find_scaling_problems(scaling=scaling, min_replicas=low, max_replicas=high),
    ]
    if problems:
        raise SubmitRefused(problems)
    with transaction.atomic():
        workload = workloads.submit_workload(
            project_id=project_id,
            pool_id=pool_id,
            submission=submission,
            authority=authority,
            now=now,
        )
        service = models.InferenceService(workload=workload)
        _write(service, scaling, low)
        service.save()
        workload.desired_replicas = min(max(low, service.initial_replicas), high)
        workload.save(update_fields=["desired_replicas"])
    return workload


@transaction.atomic
def change_scaling(
    *,
    workload_id: int,
    min_replicas: int,
    max_replicas: int,
    scaling: Scaling,
    authority: Authority,
    now: datetime,
) -> models.InferenceService:
    """Change how a service scales; what runs is touched only where it is above the new maximum.

    Raises:
        NotFound, NotPermitted, SubmitRefused.
    """
    workload = (
        models.Workload.objects.select_for_update(of=("self",))
        .select_related("project")
        .filter(pk=workload_id, kind=Kind.INFERENCE, deleted_at__isnull=True)
        .first()
    )
    if workload is None or not authority.sees_project(
        project_id=workload.project_id, department_id=workload.project.department_id
    ):
        raise NotFound("service")
    _require(authority, workload.project)
    problems = [
        *submissions.find_bounds_problems(kind=Kind.INFERENCE, low=min_replicas, high=max_replicas),
        *find_scaling_problems(
            scaling=scaling, min_replicas=min_replicas, max_replicas=max_replicas
        ),
    ]
    if problems:
        raise SubmitRefused(problems)
    service, _ = models.InferenceService.objects.select_for_update().get_or_create(
        workload=workload
    )
    before = _told(workload, service)
    workload.min_replicas, workload.max_replicas = min_replicas, max_replicas
    if Phase(workload.phase) not in END_PHASES:
        workload.desired_replicas = min(max(workload.desired_replicas, min_replicas), max_replicas)
    workload.generation += 1
    workload.save()
    _write(service, scaling, min_replicas)
    service.save()
    audit.record(
        authority=authority,
        now=now,
        action="service.scaling",
        target=workload,
        before=before,
        after=_told(workload, service),
    )
    events.wake_on_commit()
    return service


def find_scaling_problems(
    *, scaling: Scaling, min_replicas: int, max_replicas: int
) -> list[Problem]:
    """Return everything that is wrong with how a service is to scale."""
    return [
        *_metric_problems(scaling, min_replicas, max_replicas),
        *_count_problems(scaling),
        *_time_problems(scaling),
        *_name_problems(scaling),
    ]


def _write(service: models.InferenceService, scaling: Scaling, min_replicas: int) -> None:
    initial = scaling.initial_replicas
    if initial is None:
        initial = min_replicas or 1
    activation = scaling.activation_replicas
    service.model_names = list(scaling.model_names)
    service.open_to_all = scaling.open_to_all
    service.metric = scaling.metric.value if scaling.metric else ""
    service.threshold = scaling.threshold
    service.target_percent = scaling.target_percent
    service.gauge_name, service.gauge_path = scaling.gauge_name, scaling.gauge_path
    service.initial_replicas = initial
    service.activation_replicas = activation if activation is not None else min_replicas or 1
    service.hard_limit = scaling.hard_limit
    service.stable_window_s = scaling.stable_window_s
    service.zero_grace_s = scaling.zero_grace_s
    service.zero_retention_s = scaling.zero_retention_s
    service.scale_down_delay_s = scaling.scale_down_delay_s
    service.request_timeout_s = scaling.request_timeout_s
    service.drain_s = scaling.drain_s
    service.waiting_limit = scaling.waiting_limit


def _told(workload: models.Workload, service: models.InferenceService) -> dict[str, object]:
    return {
        "min_replicas": workload.min_replicas,
        "max_replicas": workload.max_replicas,
        "metric": service.metric,
        "threshold": service.threshold,
        "hard_limit": service.hard_limit,
    }


def _require(authority: Authority, project: models.Project) -> None:
    if not authority.may(Action.SERVE, project_id=project.pk, department_id=project.department_id):
        raise NotPermitted(
            f"Your role may not act on inference services in {project.name}. "
            "Ask a project admin for the right.",
            code="serving_is_for_admins",
            params={"project": project.name},
            target=project,
        )


def _metric_problems(scaling: Scaling, low: int, high: int) -> list[Problem]:
    problems: list[Problem] = []
    if scaling.metric is None and low < high and (low, high) != (0, 1):
        problems.append(
            Problem(
                field="metric",
                code="metric_needed",
                message="Say what another replica depends on: concurrency, throughput, latency or "
                "a number of its own.",
            )
        )
    if scaling.metric is not None and scaling.metric not in DEMAND_METRICS and low == 0:
        problems.append(
            Problem(
                field="min_replicas",
                code="metric_without_zero",
                message=f"A service that scales by {scaling.metric} can't go to zero: at zero there "
                "is nothing to measure. Take a minimum of 1, or concurrency or throughput.",
                params={"metric": scaling.metric.value},
            )
        )
    if scaling.metric is Metric.CUSTOM and not _GAUGE_NAME.fullmatch(scaling.gauge_name):
        problems.append(
            Problem(
                field="gauge_name",
                code="bad_gauge",
                message="Give the name of the gauge on the replicas' metrics page, such as "
                "queue_length.",
            )
        )
    return problems


def _count_problems(scaling: Scaling) -> list[Problem]:
    bounds = [
        ("threshold", scaling.threshold, 1, 10**9),
        ("target_percent", scaling.target_percent, 1, 100),
        ("hard_limit", scaling.hard_limit, 0, 10**6),
        ("waiting_limit", scaling.waiting_limit, 1, 10**5),
        ("initial_replicas", scaling.initial_replicas, 0, submissions.MAX_REPLICAS),
        ("activation_replicas", scaling.activation_replicas, 1, submissions.MAX_REPLICAS),
    ]
    return [p for name, value, low, high in bounds if (p := _bound(name, value, low, high))]


def _time_problems(scaling: Scaling) -> list[Problem]:
    bounds = [
        ("stable_window_s", scaling.stable_window_s, 6, 3600),
        ("zero_grace_s", scaling.zero_grace_s, 0, 3600),
        ("zero_retention_s", scaling.zero_retention_s, 0, 3600),
        ("scale_down_delay_s", scaling.scale_down_delay_s, 0, 3600),
        ("request_timeout_s", scaling.request_timeout_s, 1, DAY_S),
        ("drain_s", scaling.drain_s, 0, 3600),
    ]
    return [p for name, value, low, high in bounds if (p := _bound(name, value, low, high))]


def _bound(name: str, value: int | None, low: int, high: int) -> Problem | None:
    if value is None or low <= value <= high:
        return None
    return Problem(
        field=name,
        code="out_of_range",
        message=f"Use {low} to {high}.",
        params={"low": low, "high": high},
    )


def _name_problems(scaling: Scaling) -> list[Problem]:
    bad = [name for name in scaling.model_names if not _MODEL_NAME.fullmatch(name)]
    if not bad and scaling.gauge_path.startswith("/"):
        return []
    if bad:
        return [
            Problem(
                field="model_names",
                code="bad_model_name",
                message=f"{bad[0]!r} is no model name: use letters, digits and . _ : / @ -, at most "
                "200, beginning with a letter or digit.",
                params={"name": bad[0]},
            )
        ]
    return [Problem(field="gauge_path", code="bad_path", message="Begin the path with a slash.")]
