"""Workspaces that have a page of their own: where it listens, and when it was last used."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import redis

from scheduler import events, models
from scheduler.core.vocabulary import Kind, ReplicaPhase
from scheduler.engines.base import ReplicaKey
from scheduler.queries.visibility import Visibility

log = logging.getLogger(__name__)
_SEEN = "tidegate:workspace_seen:{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A running workspace that listens."""

    workload_id: int
    project_id: int
    department_id: int
    name: str
    host: str
    port: int
    key: ReplicaKey


def find_workspace(*, visible: Visibility, workload_id: int) -> Workspace | None:
    """Return a workspace that runs and listens, or None where there is none such for the reader."""
    row = (
        models.Replica.objects.filter(
            visible.projects(prefix="workload__project__"),
            workload=workload_id,
            workload__kind=Kind.WORKSPACE,
            workload__deleted_at__isnull=True,
            phase=ReplicaPhase.RUNNING,
            port__isnull=False,
        )
        .select_related("workload__project")
        .order_by("-attempt")
        .first()
    )
    if row is None or row.port is None:
        return None
    return Workspace(
        workload_id=workload_id,
        project_id=row.workload.project_id,
        department_id=row.workload.project.department_id,
        name=row.workload.name,
        host=row.host or "127.0.0.1",
        port=row.port,
        key=ReplicaKey(replica_id=row.pk, attempt=row.attempt),
    )


def note_use(*, workload_id: int, now: datetime) -> None:
    """Note that somebody uses a workspace's page. It says nothing of its GPU: only that counts as idle."""
    try:
        events.client().set(_SEEN.format(workload_id), int(now.timestamp()), ex=90 * 86_400)
    except redis.RedisError:
        log.warning("workspace.use.away", exc_info=True)


def last_used(*, workload_id: int) -> datetime | None:
    """Return when somebody last used a workspace's page; None: not known."""
    try:
        seen = events.client().get(_SEEN.format(workload_id))
    except redis.RedisError:
        return None
    return None if seen is None else datetime.fromtimestamp(int(seen), tz=UTC)
