"""Gateway keys as their page shows them, and what was used through them: by key, model or team."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Q, Sum

from scheduler import models
from scheduler.queries.visibility import Visibility

USAGE_DAYS = 30
COUNTS = models.GatewayUsage.COUNTS


class By(StrEnum):
    """By what usage is summed up."""

    ALL = "all"  # key, project and model
    KEY = "key"
    MODEL = "model"
    PROJECT = "project"
    DEPARTMENT = "department"


_FIELDS = {
    By.ALL: ("key_id", "project__name", "model"),
    By.KEY: ("key_id",),
    By.MODEL: ("model",),
    By.PROJECT: ("project__name",),
    By.DEPARTMENT: ("project__department__name",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One gateway key with its usage of the last thirty days."""

    id: int
    name: str
    prefix: str
    scope: str
    is_department: bool
    #: Revoked, or past its end.
    ended: bool
    color: int | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    allowed_models: tuple[str, ...]
    requests_per_minute: int
    tokens_per_day: int
    budget_micro: int
    #: Over the key's whole life, as its budget is.
    spent_micro: int
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    cost_micro: int

    @property
    def budget_percent(self) -> int:
        """Return how much of the budget is spent, at most 100; 0 where there is none."""
        if not self.budget_micro:
            return 0
        return min(100, self.spent_micro * 100 // self.budget_micro)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What was used, summed up; names that a row is not summed by are empty."""

    #: Empty also for a key that the reader does not see, of a service that is open to all.
    key_name: str
    project_name: str
    department_name: str
    model: str
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    served_ms: int
    queued_ms: int
    cost_micro: int


def list_keys(*, visible: Visibility, now: datetime) -> tuple[KeyRow, ...]:
    """Return the keys of the reader's projects and whole departments, the newest first. Three queries."""
    rows = list(
        models.GatewayKey.objects.filter(_seen(visible))
        .select_related("project", "department")
        .order_by("-id")
    )
    ids = [row.pk for row in rows]
    used = _sums(ids, since=now - timedelta(days=USAGE_DAYS))
    spent = _sums(ids, since=None)
    return tuple(
        _key(row, used.get(row.pk, {}), spent.get(row.pk, {}), ended=_has_ended(row, now))
        for row in rows
    )


def list_usage(*, visible: Visibility, now: datetime, by: By = By.ALL) -> tuple[UsageRow, ...]:
    """Return the last thirty days of the reader's projects, summed up, the dearest first. Two queries."""
    rows: Any = (
        models.GatewayUsage.objects.filter(
            visible.projects(prefix="project__"), hour_at__gte=now - timedelta(days=USAGE_DAYS)
        )
        .values(*_FIELDS[by])
        .annotate(**{f"sum_{name}": Sum(name) for name in COUNTS})
    )
    dearest = sorted(rows, key=lambda row: (-row["sum_cost_micro"], -row["sum_requests"]))
    names = dict(models.GatewayKey.objects.filter(_seen(visible)).values_list("id", "name"))
    return tuple(
        UsageRow(
            key_name=names.get(row.get("key_id"), ""),
            project_name=row.get("project__name", ""),
            department_name=row.get("project__department__name", ""),
            model=row.get("model", ""),
            **{name: row[f"sum_{name}"] for name in COUNTS},
        )
        for row in dearest
    )


def _has_ended(row: models.GatewayKey, now: datetime) -> bool:
    return row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now)


def _seen(visible: Visibility) -> Q:
    """Return the filter on keys: a department's is seen by who sees the whole department."""
    own = visible.projects(prefix="project__") & Q(project__isnull=False)
    if visible.cluster:
        whole = Q(department__isnull=False)
        if not visible.scratch:
            whole &= Q(department__scratch=False)
        return own | whole
    return own | Q(department_id__in=visible.department_ids)


def _sums(ids: list[int], *, since: datetime | None) -> dict[int, dict[str, int]]:
    rows = models.GatewayUsage.objects.filter(key_id__in=ids)
    if since is not None:
        rows = rows.filter(hour_at__gte=since)
    sums: Any = rows.values("key_id").annotate(**{f"sum_{name}": Sum(name) for name in COUNTS})
    return {row["key_id"]: {name: row[f"sum_{name}"] for name in COUNTS} for row in sums}


def _key(
    row: models.GatewayKey, used: dict[str, int], spent: dict[str, int], *, ended: bool
) -> KeyRow:
    scope = row.project.name if row.project else row.department.name if row.department else ""
    return KeyRow(
        id=row.pk,
        name=row.name,
        prefix=row.prefix,
        scope=scope,
        is_department=row.project_id is None,
        ended=ended,
        color=row.project.color if row.project else None,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        allowed_models=tuple(row.allowed_models),
        requests_per_minute=row.requests_per_minute,
        tokens_per_day=row.tokens_per_day,
        budget_micro=row.budget_micro,
        spent_micro=spent.get("cost_micro", 0),
        requests=used.get("requests", 0),
        errors=used.get("errors", 0),
        input_tokens=used.get("input_tokens", 0),
        output_tokens=used.get("output_tokens", 0),
        cost_micro=used.get("cost_micro", 0),
    )
