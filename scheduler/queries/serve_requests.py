"""Requests to serve that a reader may see: open ones first, then what became of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.queries.visibility import Visibility

SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One request and its trail."""

    id: int
    name: str
    project_id: int
    project_name: str
    department_id: int
    color: int
    asked_mgpu: int
    replicas: str
    command: tuple[str, ...]
    comment: str
    requested_by: str
    requested_at: datetime
    status: str
    decided_by: str
    decided_at: datetime | None
    answer: str
    workload_id: int | None

    @property
    def open(self) -> bool:
        """Test whether it waits for a decision."""
        return self.status == models.ServeRequest.Status.OPEN


def list_requests(*, visible: Visibility) -> tuple[RequestRow, ...]:
    """Return the newest requests, those that wait for a decision first."""
    rows = models.ServeRequest.objects.filter(visible.projects(prefix="project__")).select_related(
        "project"
    )
    found = [_row(row) for row in rows.order_by("-id")[:SHOWN]]
    return tuple(sorted(found, key=lambda row: not row.open))


def _row(row: models.ServeRequest) -> RequestRow:
    asked: Mapping[str, object] = row.submission
    devices, mgpu = asked.get("devices"), asked.get("request_mgpu")
    low, high = asked.get("min_replicas"), asked.get("max_replicas")
    command = asked.get("command")
    return RequestRow(
        id=row.pk,
        name=row.name,
        project_id=row.project_id,
        project_name=row.project.name,
        department_id=row.project.department_id,
        color=row.project.color,
        asked_mgpu=devices * mgpu if isinstance(devices, int) and isinstance(mgpu, int) else 0,
        replicas=f"{low}-{high}" if low != high else f"{low}",
        command=tuple(command) if isinstance(command, list) else (),
        comment=row.comment,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        status=row.status,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        answer=row.answer,
        workload_id=row.workload_id,
    )
