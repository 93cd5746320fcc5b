"""Whose output of a workload there is to read: its runs, and in each its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.queries.visibility import Visibility

#: Replicas of all runs together that are offered, the newest.
SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One attempt of one replica. ``stop_code``: why it was ended, where it was."""

    id: int
    ordinal: int
    attempt: int
    engine: str
    booked_at: datetime
    ended_at: datetime | None
    stop_code: str


def list_outputs(*, visible: Visibility, workload_id: int) -> tuple[Output, ...] | None:
    """Return a workload's outputs, the newest run first; None: no such workload for the reader."""
    seen = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
    )
    if not seen.exists():
        return None
    rows = models.Replica.objects.filter(workload_id=workload_id).select_related("node")
    return tuple(
        Output(
            id=row.pk,
            ordinal=row.ordinal,
            attempt=row.attempt,
            engine=row.node.engine,
            booked_at=row.booked_at,
            ended_at=row.ended_at,
            stop_code=row.stop_code,
        )
        for row in rows.order_by("-attempt", "ordinal")[:SHOWN]
    )


def find_output(
    outputs: Sequence[Output], *, ordinal: int, attempt: int | None = None
) -> Output | None:
    """Return a replica's output of one run, or of its newest."""
    found = (each for each in outputs if each.ordinal == ordinal)
    return next((each for each in found if attempt in (None, each.attempt)), None)
