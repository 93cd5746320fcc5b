"""What was changed of quotas, by whom and why, newest first; and what to set to undo one change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.queries.quota_tree import FIELDS, Key, QuotaTree
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitChange:
    """One row of a change: a department or a project, before and after."""

    key: Key
    name: str
    before: QueueQuota
    after: QueueQuota


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """Rows that were saved together. ``id`` is that of its first entry in the audit log."""

    id: int
    at: datetime
    actor: str
    door: str
    reason: str
    units: tuple[UnitChange, ...]


def list_changes(*, visible: Visibility, pool_name: str, at_most: int) -> tuple[QuotaChange, ...]:
    """Return the newest changes of a pool's quotas that a reader may see."""
    rows = _entries(visible).order_by("-id")[: at_most * 20]
    changes: list[QuotaChange] = []
    for row in rows:
        if row.after.get("pool") != pool_name:
            continue
        unit = _unit_change(row)
        last = changes[-1] if changes else None
        if last is not None and (last.at, last.actor, last.reason) == (
            row.at,
            row.actor,
            row.reason,
        ):
            changes[-1] = replace(last, id=row.pk, units=(unit, *last.units))
            continue
        if len(changes) == at_most:
            break
        changes.append(_change(row, (unit,)))
    return tuple(changes)


def find_change(*, visible: Visibility, pool_name: str, change_id: int) -> QuotaChange | None:
    """Return one change with all of its rows, or None where there is none for the reader."""
    first = _entries(visible).filter(pk=change_id).first()
    if first is None or first.after.get("pool") != pool_name:
        return None
    rows = _entries(visible).filter(at=first.at, actor=first.actor, reason=first.reason)
    return _change(first, tuple(_unit_change(row) for row in rows.order_by("id")))


def changes_since(
    *, visible: Visibility, pool_name: str, key: Key, count: int
) -> tuple[QuotaChange, ...]:
    """Return the last ``count`` changes of one row, oldest first: what its reader has not seen."""
    level, unit_id = key
    rows = _entries(visible).filter(object_kind=level.value, object_id=unit_id).order_by("-id")
    found = [row for row in rows[: 4 * count] if row.after.get("pool") == pool_name][:count]
    return tuple(_change(row, (_unit_change(row),)) for row in reversed(found))


def values_before(*, tree: QuotaTree, change: QuotaChange) -> dict[Key, QueueQuota]:
    """Return what to set so that the rows of a change are as they were before it."""
    there = {row.key for row in tree.rows}
    return {unit.key: unit.before for unit in change.units if unit.key in there}


def _entries(visible: Visibility) -> QuerySet[models.AuditEntry]:
    entries = models.AuditEntry.objects.filter(action="quota.set", result="done")
    if visible.cluster:
        return entries
    projects = models.Project.objects.filter(visible.projects()).values("pk")
    return entries.filter(
        Q(project_id__in=projects)
        | Q(department_id__in=visible.department_ids, project_id__isnull=True)
    )


def _change(row: models.AuditEntry, units: tuple[UnitChange, ...]) -> QuotaChange:
    return QuotaChange(
        id=row.pk, at=row.at, actor=row.actor, door=row.door, reason=row.reason, units=units
    )


def _unit_change(row: models.AuditEntry) -> UnitChange:
    return UnitChange(
        key=(Level(row.object_kind), row.object_id or 0),
        name=row.object_name,
        before=_quota(row.before),
        after=_quota(row.after),
    )


def _quota(values: Mapping[str, object]) -> QueueQuota:
    return QueueQuota(**{name: values[name] for name in FIELDS if name in values})  # type: ignore[arg-type]
