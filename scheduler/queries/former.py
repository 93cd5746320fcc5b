"""What a former submission asked for, so that another like it can be begun from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler import models
from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.queries.visibility import Visibility

#: What a submission and the row that was made of it call the same.
_SAME = (
    "kind",
    "priority",
    "devices",
    "request_mgpu",
    "gpu_memory_mib",
    "cpu_milli",
    "memory_mib",
    "min_replicas",
    "max_replicas",
    "node_labels",
    "gpu_models",
    "command",
    "working_dir",
    "readiness_path",
    "start_timeout_s",
    "grace_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """A submission as it was, less its name; with what assets of it are still there."""

    project_id: int
    submission: dict[str, Any]
    scaling: dict[str, Any]


def read_former(*, visible: Visibility, workload_id: int) -> Former | None:
    """Return what was asked for, or None where there is no such workload for the reader."""
    rows = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
    )
    row = rows.select_related("project", "service").prefetch_related("assets__asset").first()
    if row is None:
        return None
    there = [use for use in row.assets.all() if use.asset.deleted_at is None]
    env = dict(row.env)
    for use in there:
        if use.kind == AssetKind.ENVIRONMENT:
            given = use.definition.get("env", {})
            env = {name: value for name, value in env.items() if given.get(name) != value}
    of_kind = {kind: [use.asset_id for use in there if use.kind == kind] for kind in AssetKind}
    return Former(
        project_id=row.project_id,
        submission={
            **{name: getattr(row, name) for name in _SAME},
            "name": "",
            "preemptible": row.preemptible if row.preemptible_set else None,
            "env": env,
            "environment_id": next(iter(of_kind[AssetKind.ENVIRONMENT]), None),
            "source_ids": of_kind[AssetKind.SOURCE],
            "credential_ids": of_kind[AssetKind.CREDENTIAL],
        },
        scaling=_scaling(row),
    )


def _scaling(row: models.Workload) -> dict[str, Any]:
    if row.kind != Kind.INFERENCE:
        return {}
    return {"metric": row.service.metric, "threshold": row.service.threshold}
