"""Writes the audit log, in the transaction of the change that it records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from scheduler import models
from scheduler.operations.authority import Authority


def record(
    *,
    authority: Authority,
    now: datetime,
    action: str,
    target: object,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str = "",
    result: str = "done",
) -> None:
    """Append one entry about a row of a table. Entries without a scope are the whole cluster's.

    The tick's own acts are decisions and events, not audit entries.
    """
    department_id, project_id = _scope_of(target)
    models.AuditEntry.objects.create(
        at=now,
        actor=authority.name,
        door=authority.door,
        address=getattr(authority, "address", "") or None,
        action=action,
        object_kind=type(target).__name__.lower(),
        object_id=getattr(target, "pk", None),
        object_name=str(getattr(target, "name", target))[:200],
        department_id=department_id,
        project_id=project_id,
        before=dict(before or {}),
        after=dict(after or {}),
        reason=reason,
        result=result,
    )


def _scope_of(target: object) -> tuple[int | None, int | None]:
    match target:
        case models.Workload():
            return target.project.department_id, target.project_id
        case models.Project():
            return target.department_id, target.pk
        case models.Department():
            return target.pk, None
        case _:
            return _scope_of_other(target)


def _scope_of_other(target: object) -> tuple[int | None, int | None]:
    project = getattr(target, "project", None)
    if isinstance(project, models.Project):
        return project.department_id, project.pk
    return getattr(target, "department_id", None), None
