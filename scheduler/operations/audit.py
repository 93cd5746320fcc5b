"""Writes the audit log, in the transaction of the change that it records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from scheduler import models
from scheduler.operations.authority import Authority, NotPermitted

#: One line for the same attempt in this time, and so many lines by one caller.
REFUSALS_EVERY = timedelta(minutes=1)
MOST_REFUSALS = 20


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
        object_kind="" if isinstance(target, str) else type(target).__name__.lower(),
        object_id=getattr(target, "pk", None),
        object_name="" if isinstance(target, str) else str(getattr(target, "name", target))[:200],
        department_id=department_id,
        project_id=project_id,
        before=dict(before or {}),
        after=dict(after or {}),
        reason=reason,
        result=result,
    )


def record_refusal(
    *, authority: Authority, now: datetime, action: str, error: NotPermitted
) -> None:
    """Append that a caller tried what its role does not allow; what it sent is not kept.

    Repeated attempts at the same thing have one line a minute, and one caller has 20: the log can't
    be flooded. Nothing is said of what the caller doesn't see: that was answered as absent.
    """
    since = now - REFUSALS_EVERY
    lately = models.AuditEntry.objects.filter(
        actor=authority.name, result="refused", at__gt=since, at__lte=now
    )
    target = error.target if error.target is not None else error.code
    same = lately.filter(action=action, object_id=getattr(target, "pk", None), reason=error.code)
    if same.exists() or lately.count() >= MOST_REFUSALS:
        return
    record(
        authority=authority,
        now=now,
        action=action,
        target=target,
        reason=error.code,
        result="refused",
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
