"""Emergency controls: those in force for a reader's scope, those that were, and as facts of the core."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from scheduler import models
from scheduler.core import emergency as core
from scheduler.core.instants import to_us
from scheduler.queries.visibility import Visibility

MOST_PAST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """One control. ``scope_kind``: cluster, department, project or workload; the cluster has no name."""

    id: int
    kind: core.ControlKind
    scope_kind: str
    scope_name: str
    department_id: int | None
    project_id: int | None
    workload_id: int | None
    reason: str
    #: Empty for who does not see the whole scope: whoever governs it may be nobody they know.
    set_by: str
    set_at: datetime
    until: datetime
    ended_at: datetime | None
    ended_by: str


def list_controls(
    *, visible: Visibility, now: datetime, past: bool = False
) -> tuple[ControlRow, ...]:
    """Return those in force, the widest first; with ``past`` those that were, the newest first.

    One query.
    """
    rows = models.EmergencyControl.objects.filter(_concerns(visible)).select_related(
        "department", "project__department", "workload"
    )
    over = Q(ended_at__isnull=False) | Q(until__lte=now)
    if past:
        found = rows.filter(over).order_by("-set_at", "-id").distinct()[:MOST_PAST]
        return tuple(_row(each, visible) for each in found)
    found_now = rows.exclude(over).order_by("id").distinct()
    made = (_row(each, visible) for each in found_now)
    return tuple(sorted(made, key=lambda row: (_WIDTH[row.scope_kind], row.id)))


_WIDTH = {"cluster": 0, "department": 1, "project": 2, "workload": 3}


def core_controls() -> tuple[core.Control, ...]:
    """Return what was not ended, as facts. The core compares the instants; one query."""
    return tuple(
        core.Control(
            kind=core.ControlKind(row.kind),
            until_us=to_us(row.until),
            department_id=row.department_id,
            project_id=row.project_id,
            workload_id=row.workload_id,
        )
        for row in models.EmergencyControl.objects.filter(ended_at=None).order_by("id")
    )


def _concerns(visible: Visibility) -> Q:
    """Return the filter: the cluster's controls concern everyone, others those who see the scope.

    A department's concerns whoever sees one of its projects: their work waits by it.
    """
    whole = Q(department=None, project=None)
    if visible.cluster:
        return Q()
    return (
        whole
        | (Q(project__isnull=False) & visible.projects(prefix="project__"))
        | (Q(department__isnull=False) & visible.departments(prefix="department__"))
    )


def _row(row: models.EmergencyControl, visible: Visibility) -> ControlRow:
    named = row.workload or row.project or row.department
    department_id = row.project.department_id if row.project else row.department_id
    sees_whole = visible.cluster or (
        department_id is not None and visible.sees_department(department_id)
    )
    return ControlRow(
        id=row.pk,
        kind=core.ControlKind(row.kind),
        scope_kind="workload"
        if row.workload
        else "project"
        if row.project
        else "department"
        if row.department
        else "cluster",
        scope_name="" if named is None else named.name,
        department_id=department_id,
        project_id=row.project_id,
        workload_id=row.workload_id,
        reason=row.reason,
        set_by=row.set_by if sees_whole or row.project_id in visible.project_ids else "",
        set_at=row.set_at,
        until=row.until,
        ended_at=row.ended_at,
        ended_by=row.ended_by if sees_whole or row.project_id in visible.project_ids else "",
    )
