"""The audit log for one reader: filtered, page by page, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.queries.visibility import Visibility

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """What is looked for; empty: all."""

    actor: str = ""
    action: str = ""
    result: str = ""
    text: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None
    before_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One entry. ``changes``: field, before, after, of those that differ."""

    id: int
    at: datetime
    actor: str
    door: str
    address: str
    action: str
    object_kind: str
    object_id: int | None
    object_name: str
    reason: str
    result: str
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some entries and where the older ones begin."""

    rows: tuple[AuditRow, ...]
    next_before_id: int | None
    actions: tuple[str, ...]


def read_page(*, scopes: Visibility, wanted: AuditFilter) -> AuditPage:
    """Return one page of the entries about ``scopes``, the newest first."""
    found = list(_entries(scopes, wanted).order_by("-id")[: PAGE + 1])
    actions = _about(scopes).order_by("action").values_list("action", flat=True).distinct()
    return AuditPage(
        rows=tuple(_row(entry) for entry in found[:PAGE]),
        next_before_id=found[PAGE - 1].pk if len(found) > PAGE else None,
        actions=tuple(actions),
    )


def iterate(*, scopes: Visibility, wanted: AuditFilter) -> Iterator[AuditRow]:
    """Yield all entries, the newest first, without holding them in memory."""
    for entry in _entries(scopes, wanted).order_by("-id").iterator(chunk_size=500):
        yield _row(entry)


def _about(scopes: Visibility) -> QuerySet[models.AuditEntry]:
    """Return the entries about what is in ``scopes``; those without a scope are the cluster's."""
    entries = models.AuditEntry.objects.all()
    if scopes.cluster:
        return entries
    return entries.filter(
        Q(department_id__in=scopes.department_ids) | Q(project_id__in=scopes.project_ids)
    )


def _entries(scopes: Visibility, wanted: AuditFilter) -> QuerySet[models.AuditEntry]:
    entries = _about(scopes)
    if wanted.actor:
        entries = entries.filter(actor=wanted.actor)
    if wanted.action:
        entries = entries.filter(action=wanted.action)
    if wanted.result:
        entries = entries.filter(result=wanted.result)
    if wanted.text:
        entries = entries.filter(
            Q(object_name__icontains=wanted.text)
            | Q(reason__icontains=wanted.text)
            | Q(actor__icontains=wanted.text)
        )
    if wanted.from_at is not None:
        entries = entries.filter(at__gte=wanted.from_at)
    if wanted.to_at is not None:
        entries = entries.filter(at__lt=wanted.to_at)
    if wanted.before_id is not None:
        entries = entries.filter(pk__lt=wanted.before_id)
    return entries


def _row(entry: models.AuditEntry) -> AuditRow:
    return AuditRow(
        id=entry.pk,
        at=entry.at,
        actor=entry.actor,
        door=entry.door,
        address=entry.address or "",
        action=entry.action,
        object_kind=entry.object_kind,
        object_id=entry.object_id,
        object_name=entry.object_name,
        reason=entry.reason,
        result=entry.result,
        changes=_changes(entry.before, entry.after),
    )


def _changes(
    before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[tuple[str, str, str], ...]:
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        (name, _text(before.get(name)), _text(after.get(name)))
        for name in names
        if before.get(name) != after.get(name) or name not in before
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)
