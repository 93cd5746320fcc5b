"""What a person asks for when submitting work, and everything that may be wrong or surprise with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler import models
from scheduler.core.units import WHOLE_GPU_MGPU, format_gpu
from scheduler.core.vocabulary import (
    DEFAULT_PRIORITY,
    PRIORITY_MAX,
    PRIORITY_MIN,
    Kind,
    is_preemptible,
)
from scheduler.operations.refused import Problem

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MAX_REPLICAS = 1024
MAX_GRACE_S = 300
USUAL_START_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a person asks for, already in integers. Defaults are those of the kind."""

    name: str
    kind: Kind
    command: Sequence[str]
    priority: int | None = None
    preemptible: bool | None = None
    devices: int = 1
    request_mgpu: int = 0
    gpu_memory_mib: int | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    min_replicas: int = 1
    max_replicas: int = 1
    node_labels: Mapping[str, str] = field(default_factory=dict)
    gpu_models: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    #: Below the workload's own folder; empty: that folder itself.
    working_dir: str = ""
    #: Assets by id: what is to be mounted, set and passed on.
    environment_id: int | None = None
    source_ids: Sequence[int] = ()
    credential_ids: Sequence[int] = ()
    readiness_path: str = ""
    start_timeout_s: int = USUAL_START_TIMEOUT_S
    grace_s: int = 30
    max_attempts: int | None = None


def from_json(data: Mapping[str, Any]) -> Submission:
    """Return the submission that was kept as JSON."""
    return Submission(**{**data, "kind": Kind(data["kind"])})


def find_problems(*, submission: Submission) -> list[Problem]:
    """Return everything that is wrong with a submission by itself, whatever the cluster's state."""
    return [
        *name_problems(submission.name),
        *_request_problems(submission),
        *_replica_problems(submission),
        *_run_problems(submission),
    ]


def find_taken_name(*, project_id: int | None, name: str | None) -> list[Problem]:
    """Return what is wrong with a name, so far as it is known: another workload has it."""
    if project_id is None or name is None:
        return []
    taken = models.Workload.objects.filter(
        project_id=project_id, name=name, deleted_at__isnull=True
    ).select_related("project")
    return [_name_taken(workload.name, workload.project) for workload in taken[:1]]


def find_warnings(*, submission: Submission, project_id: int, pool_id: int) -> list[Problem]:
    """Return what is allowed but will surprise: the priority trap before all.

    A training raised to 100 or more stops being preemptible, so that it may no longer borrow; with a
    quota of 0 it would wait for ever (article, "a pit that is easy to fall into").
    """
    priority = submission.priority or int(DEFAULT_PRIORITY[submission.kind])
    if is_preemptible(priority=priority, explicit=submission.preemptible):
        return []
    asked_mgpu = submission.devices * submission.request_mgpu * submission.min_replicas
    return _borrows_no_more(asked_mgpu, priority=priority, project_id=project_id, pool_id=pool_id)


def find_priority_warnings(
    *, workload_id: int, priority: int, preemptible: bool | None
) -> list[Problem]:
    """Return what of a changed priority is allowed but will surprise, as for a submission."""
    workload = models.Workload.objects.filter(pk=workload_id).first()
    if workload is None or is_preemptible(priority=priority, explicit=preemptible):
        return []
    return _borrows_no_more(
        workload.devices * workload.request_mgpu * workload.min_replicas,
        priority=priority,
        project_id=workload.project_id,
        pool_id=workload.pool_id,
    )


def _borrows_no_more(
    asked_mgpu: int, *, priority: int, project_id: int, pool_id: int
) -> list[Problem]:
    quota = models.ProjectQuota.objects.filter(project_id=project_id, pool_id=pool_id).first()
    quota_mgpu = quota.quota_mgpu if quota else 0
    if asked_mgpu <= quota_mgpu:
        return []
    return [
        Problem(
            field="priority",
            code="non_preemptible_over_quota",
            message=(
                f"With priority {priority} and these settings it can't be interrupted, so it may "
                f"not borrow: it asks for {format_gpu(asked_mgpu)} and the guarantee is "
                f"{format_gpu(quota_mgpu)}. It would wait for ever. Set “May be interrupted” to "
                "yes, or ask for a larger guarantee."
            ),
            params={"priority": priority, "asked": asked_mgpu, "quota": quota_mgpu},
        )
    ]


def _name_taken(name: str, project: models.Project) -> Problem:
    return Problem(
        field="name",
        code="name_taken",
        message=f"{project.name} already has a workload called {name}. Choose another name.",
        params={"name": name, "project": project.name},
    )


def name_problems(name: str) -> list[Problem]:
    """Return what is wrong with a name of a workload or an asset by itself."""
    if _NAME.fullmatch(name):
        return []
    return [
        Problem(
            field="name",
            code="bad_name",
            message="Use 1 to 63 small letters, digits and hyphens, beginning and ending with a "
            "letter or digit.",
        )
    ]


def _request_problems(submission: Submission) -> list[Problem]:
    problems: list[Problem] = []
    asks = submission.request_mgpu > 0 or submission.gpu_memory_mib is not None
    if not 0 <= submission.request_mgpu <= WHOLE_GPU_MGPU:
        problems.append(
            Problem(
                field="gpu",
                code="bad_fraction",
                message="Ask for a fraction from 0.001 to 0.999 of a GPU, or for whole GPUs.",
            )
        )
    if submission.request_mgpu and submission.gpu_memory_mib is not None:
        problems.append(
            Problem(
                field="gpu_memory_mib",
                code="both_share_and_memory",
                message="Ask for a share of a GPU or for GPU memory, not for both.",
            )
        )
    if submission.gpu_memory_mib is not None and submission.gpu_memory_mib < 1:
        problems.append(
            Problem(field="gpu_memory_mib", code="too_small", message="Ask for at least 1 MiB.")
        )
    if asks and not 1 <= submission.devices <= 64:
        problems.append(
            Problem(field="devices", code="bad_count", message="Ask for 1 to 64 devices a replica.")
        )
    for name in ("cpu_milli", "memory_mib"):
        if getattr(submission, name) < 0:
            problems.append(Problem(field=name, code="negative", message="Must not be negative."))
    return problems


def _replica_problems(submission: Submission) -> list[Problem]:
    low, high = submission.min_replicas, submission.max_replicas
    if submission.kind in (Kind.TRAINING, Kind.WORKSPACE) and (low, high) != (1, 1):
        return [
            Problem(
                field="max_replicas",
                code="one_replica",
                message=f"A {submission.kind} has one replica. Use a distributed training for more.",
            )
        ]
    return find_bounds_problems(kind=submission.kind, low=low, high=high)


def find_bounds_problems(*, kind: Kind, low: int, high: int) -> list[Problem]:
    """Return what is wrong with the bounds of how many replicas there are."""
    lowest = 0 if kind is Kind.INFERENCE else 1
    if not lowest <= low <= high or not 1 <= high <= MAX_REPLICAS:
        return [
            Problem(
                field="min_replicas",
                code="bad_bounds",
                message=f"Need {lowest} <= minimum <= maximum and 1 <= maximum <= {MAX_REPLICAS}.",
            )
        ]
    return []


def priority_problems(priority: int | None) -> list[Problem]:
    if priority is None or PRIORITY_MIN <= priority <= PRIORITY_MAX:
        return []
    return [
        Problem(
            field="priority",
            code="bad_priority",
            message=f"A priority is a number from {PRIORITY_MIN} to {PRIORITY_MAX}.",
        )
    ]


def _run_problems(submission: Submission) -> list[Problem]:
    problems = priority_problems(submission.priority)
    given_elsewhere = not submission.command and submission.environment_id is not None
    if not given_elsewhere and not "".join(submission.command[:1]):
        problems.append(
            Problem(
                field="command", code="empty", message="Say what to run, such as: python train.py"
            )
        )
    if any("\0" in part for part in submission.command):
        problems.append(
            Problem(field="command", code="bad_character", message="Must not hold a zero byte.")
        )
    problems += env_problems(submission.env)
    if not 0 <= submission.grace_s <= MAX_GRACE_S:
        problems.append(
            Problem(field="grace_s", code="bad_grace", message=f"Use 0 to {MAX_GRACE_S} seconds.")
        )
    return problems


def env_problems(names: Iterable[str], *, field: str = "env") -> list[Problem]:
    """Return what is wrong with names of environment variables."""
    return [
        Problem(
            field=field,
            code="bad_env_name",
            message=f"{name!r} can't be set: use letters, digits and underscores, and no name that "
            "begins with TIDEGATE_.",
            params={"name": name},
        )
        for name in names
        if not _ENV_NAME.fullmatch(name) or name.startswith("TIDEGATE_")
    ]


def fields_of(submission: Submission) -> dict[str, object]:
    priority = submission.priority
    if priority is None:
        priority = int(DEFAULT_PRIORITY[submission.kind])
    service = submission.kind is Kind.INFERENCE
    max_attempts = submission.max_attempts
    if max_attempts is None:
        max_attempts = 0 if service else 3
    return {
        "name": submission.name,
        "kind": submission.kind,
        "priority": priority,
        "preemptible": is_preemptible(priority=priority, explicit=submission.preemptible),
        "preemptible_set": submission.preemptible is not None,
        "devices": submission.devices,
        "request_mgpu": submission.request_mgpu,
        "gpu_memory_mib": submission.gpu_memory_mib,
        "cpu_milli": submission.cpu_milli,
        "memory_mib": submission.memory_mib,
        "min_replicas": submission.min_replicas,
        "max_replicas": submission.max_replicas,
        "desired_replicas": submission.min_replicas if service else submission.max_replicas,
        "node_labels": dict(submission.node_labels),
        "gpu_models": list(submission.gpu_models),
        "command": list(submission.command),
        "env": dict(submission.env),
        "working_dir": submission.working_dir,
        "readiness_path": submission.readiness_path,
        "start_timeout_s": submission.start_timeout_s,
        "grace_s": submission.grace_s,
        "max_attempts": max_attempts,
    }
