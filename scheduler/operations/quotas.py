"""What people do with quotas: set guarantees and limits of departments and projects, whole or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import events, models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.operations import audit, notices, quota_rules
from scheduler.operations.authority import SYSTEM, Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, QuotaConflict, QuotaRefused
from scheduler.operations.steady_clock import steady_us
from scheduler.operations.unit_rows import find_department, find_project
from scheduler.queries.pool_state import PoolRow
from scheduler.queries.quota_tree import FIELDS, Key, QuotaRow, QuotaTree, read_pool_tree
from scheduler.queries.visibility import SYSTEM as EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEdit:
    """One row of a draft. ``version`` is that of the row it was made from; None: not compared."""

    level: Level
    id: int
    values: QueueQuota
    version: int | None = None

    @property
    def key(self) -> Key:
        """Return what tells its row from all others of the pool."""
        return self.level, self.id


def set_quotas(
    *,
    pool_id: int,
    edits: Sequence[QuotaEdit],
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set the quotas of several departments and projects, all of them or none.

    Returns what is allowed and was warned of, with figures. A refused attempt is in the audit log.

    Raises:
        NotFound: a department, project or pool that is not there for the caller.
        NotPermitted: a row that the caller may not change.
        QuotaConflict: a row that someone else has changed since it was read.
        QuotaRefused: limit below quota, quota below what non-preemptible work holds, or (where the
            cluster forbids oversubscription) more than the parent has.
    """
    return set_in_pools(edits={pool_id: edits}, authority=authority, now=now, reason=reason)


def set_in_pools(
    *,
    edits: Mapping[int, Sequence[QuotaEdit]],
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set quotas in several pools, all of them or none; as ``set_quotas``."""
    try:
        with transaction.atomic():
            return [
                warning
                for pool_id, own in edits.items()
                for warning in _set_quotas(pool_id, own, authority, now, reason)
            ]
    except QuotaRefused as refused:
        every = [edit for own in edits.values() for edit in own]
        record_refusal(
            every, authority=authority, now=now, action="quota.set", reason=reason, refused=refused
        )
        raise


def set_department_quota(
    *,
    department_id: int,
    pool_id: int,
    values: QueueQuota,
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set one department's quota and limit in a pool; as ``set_quotas``."""
    edit = QuotaEdit(level=Level.DEPARTMENT, id=department_id, values=values)
    return set_quotas(pool_id=pool_id, edits=[edit], authority=authority, now=now, reason=reason)


def set_project_quota(
    *,
    project_id: int,
    pool_id: int,
    values: QueueQuota,
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> list[Problem]:
    """Set one project's quota and limit in a pool; as ``set_quotas``."""
    edit = QuotaEdit(level=Level.PROJECT, id=project_id, values=values)
    return set_quotas(pool_id=pool_id, edits=[edit], authority=authority, now=now, reason=reason)


def _set_quotas(
    pool_id: int, edits: Sequence[QuotaEdit], authority: Authority, now: datetime, reason: str
) -> list[Problem]:
    models.Cluster.objects.locked()
    pool = find_pool(pool_id)
    for edit in edits:
        find_unit(edit.key, authority)
    tree = read_whole_tree(pool)
    _refuse_what_moved(tree, edits)
    wanted = {edit.key: edit.values for edit in edits}
    return write_quotas(
        pool=pool, tree=tree, wanted=wanted, authority=authority, now=now, reason=reason
    )


def write_quotas(
    *,
    pool: models.NodePool,
    tree: QuotaTree,
    wanted: Mapping[Key, QueueQuota],
    authority: Authority,
    now: datetime,
    reason: str,
) -> list[Problem]:
    """Write the values of several rows of a locked cluster, with audit and history; return warnings.

    Whether the caller may is for the caller to ask.

    Raises:
        QuotaRefused: as ``set_quotas``; nothing is written.
    """
    kept = {key: quota_rules.normalized(quota) for key, quota in wanted.items()}
    after = tree.with_quotas(kept)
    problems = find_refusals(tree=after, edited=kept)
    if problems:
        raise QuotaRefused(problems)
    for key, quota in kept.items():
        _save(find_unit(key, SYSTEM), pool, quota, authority, now, reason)
    models.Cluster.objects.filter(pk=1).update(generation=F("generation") + 1)
    events.wake_on_commit()
    return quota_rules.find_warnings(tree=after, edited=kept)


def find_refusals(*, tree: QuotaTree, edited: Collection[Key]) -> list[Problem]:
    """Return why a changed tree can't be saved, with what this cluster's setting forbids."""
    problems = quota_rules.find_problems(tree=tree, edited=edited)
    if models.Cluster.objects.one().forbid_oversubscription:
        problems += quota_rules.find_oversubscription(tree=tree, edited=edited)
    return problems


def find_pool(pool_id: int) -> models.NodePool:
    """Return the pool, or raise NotFound."""
    pool = models.NodePool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    return pool


def read_whole_tree(pool: models.NodePool) -> QuotaTree:
    """Return all rows of a pool, as the rules need them."""
    return read_pool_tree(visible=EVERYTHING, pool=PoolRow(id=pool.pk, name=pool.name))


def find_unit(key: Key, authority: Authority) -> models.Department | models.Project:
    """Return the department or project if it is there for the caller, who may change its quota.

    Raises:
        NotFound, NotPermitted.
    """
    level, unit_id = key
    if level is Level.DEPARTMENT:
        department = find_department(department_id=unit_id, authority=authority)
        if not authority.may(Action.DEPARTMENT_QUOTA, department_id=department.pk):
            raise NotPermitted(
                f"You may not change the quota of {department.name}. Ask a system admin.",
                code="department_quota_is_for_admins",
                params={"name": department.name},
                target=department,
            )
        return department
    project = find_project(project_id=unit_id, authority=authority)
    if not authority.may(Action.PROJECT_QUOTA, department_id=project.department_id):
        raise NotPermitted(
            f"You may not change the quota of {project.name}. Ask its department's admin.",
            code="project_quota_is_for_admins",
            params={"name": project.name},
            target=project,
        )
    return project


def _refuse_what_moved(tree: QuotaTree, edits: Sequence[QuotaEdit]) -> None:
    """Refuse a draft that was made from values which someone else has changed meanwhile."""
    moved = [
        row
        for edit in edits
        if edit.version is not None
        and (row := tree.row(edit.key)) is not None
        and row.version != edit.version
    ]
    if moved:
        raise QuotaConflict([_conflict(row) for row in moved])


def _conflict(row: QuotaRow) -> Problem:
    last = (
        models.AuditEntry.objects.filter(
            action="quota.set", object_kind=row.level.value, object_id=row.id, result="done"
        )
        .order_by("-id")
        .first()
    )
    who = last.actor if last else "Someone"
    return Problem(
        field="quota",
        code="changed_meanwhile",
        message=f"{who} has changed {row.name} since you read it. Look at the new values first.",
        params={"name": row.name, "who": who},
        unit=row.unit,
    )


def _save(
    unit: models.Department | models.Project,
    pool: models.NodePool,
    values: QueueQuota,
    authority: Authority,
    now: datetime,
    reason: str,
) -> None:
    row: models.DepartmentQuota | models.ProjectQuota
    if isinstance(unit, models.Project):
        department, project = unit.department, unit
        row, is_new = models.ProjectQuota.objects.get_or_create(project=unit, pool=pool)
    else:
        department, project = unit, None
        row, is_new = models.DepartmentQuota.objects.get_or_create(department=unit, pool=pool)
    before = _write(row, values)
    _history(department=department, project=project, pool_id=pool.pk, values=values, now=now)
    audit.record(
        authority=authority,
        now=now,
        action="quota.set",
        target=unit,
        before={"pool": pool.name, **before},
        after={"pool": pool.name, **{name: getattr(row, name) for name in before}},
        reason=reason,
    )
    if not is_new:  # the first values of a unit change nothing for anyone
        _announce(unit, pool, before=before, row=row, authority=authority, now=now)


def _announce(
    unit: models.Department | models.Project,
    pool: models.NodePool,
    *,
    before: Mapping[str, object],
    row: models.DepartmentQuota | models.ProjectQuota,
    authority: Authority,
    now: datetime,
) -> None:
    """Tell those who see the unit which of its values are others now."""
    changes = {
        name: [value, getattr(row, name)]
        for name, value in before.items()
        if value != getattr(row, name)
    }
    if not changes:
        return
    notices.announce(
        code="quota_changed",
        params={"name": unit.name, "pool": pool.name, "by": authority.name, "changes": changes},
        audience="see",
        project=unit if isinstance(unit, models.Project) else None,
        department=None if isinstance(unit, models.Project) else unit,
        skip=authority.name,
        now=now,
    )


def record_refusal(
    edits: Sequence[QuotaEdit],
    *,
    authority: Authority,
    now: datetime,
    action: str,
    reason: str,
    refused: QuotaRefused,
) -> None:
    """Record an attempt that was refused: what was wanted, and why it could not be.

    ``edits``: of rows that the caller may see.
    """
    why = [problem.code for problem in refused.problems]
    for edit in edits:
        model = models.Department if edit.level is Level.DEPARTMENT else models.Project
        unit = model.objects.filter(pk=edit.id).first()
        if unit is None:
            continue
        wanted = {name: getattr(edit.values, name) for name in FIELDS}
        audit.record(
            authority=authority,
            now=now,
            action=action,
            target=unit,
            after={**wanted, "refused": why},
            reason=reason,
            result="refused",
        )


def _write(
    row: models.DepartmentQuota | models.ProjectQuota, values: QueueQuota
) -> dict[str, object]:
    """Write the values; return those before."""
    before: dict[str, object] = {}
    for name in FIELDS:
        before[name] = getattr(row, name)
        setattr(row, name, getattr(values, name))
    row.version += 1
    row.save()
    return before


def _history(
    *,
    department: models.Department,
    project: models.Project | None,
    pool_id: int,
    values: QueueQuota,
    now: datetime,
) -> None:
    """Close the row of the ledger that was in force and open the next."""
    at_us = steady_us(now)
    before = models.QuotaHistory.objects.filter(
        department=department, project=project, pool_id=pool_id, to_us__isnull=True
    ).first()
    if before is not None:
        at_us = before.to_us = max(at_us, before.from_us)
        before.save(update_fields=["to_us"])
    models.QuotaHistory.objects.create(
        department=department,
        project=project,
        pool_id=pool_id,
        quota_mgpu=values.quota_mgpu,
        limit_mgpu=values.limit_mgpu,
        over_quota=values.over_quota,
        from_us=at_us,
    )
