"""Replays of drafts as their reader sees them: both runs side by side, unit by unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from scheduler import models
from scheduler.queries.visibility import Visibility

#: mGPU x microseconds in a GPU hour.
GPU_HOUR = 1000 * 3_600_000_000
STANDS_STILL = timedelta(minutes=5)
_COUNTS = ("submitted", "never_started", "interruptions", "held", "unused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One unit in one run. Hours are GPU hours; waits count to the first start."""

    submitted: int
    wait_mean_s: int | None
    #: Of all work of the unit that started.
    wait_p95_s: int | None
    never_started: int
    interruptions: int
    held_h: Decimal
    unused_h: Decimal
    cost: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """One department or project, before and after."""

    name: str
    color: int
    is_department: bool
    before: Figures
    after: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One replay with the units that its reader sees."""

    id: int
    pool_name: str
    days: int
    requested_by: str
    requested_at: datetime
    status: str
    #: It is said to be at work and has not gone on for minutes.
    cut_short: bool
    progress_permille: int
    names: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    #: The time was not enough to play all of it.
    ended_early: bool
    #: Submissions that were played; of all projects, so only for who sees the whole cluster.
    submitted: int | None
    left_out: int
    never_ran: int
    #: What nobody held of the whole pool, before and after; for who sees the whole cluster.
    free_before_h: Decimal | None
    free_after_h: Decimal | None
    rows: tuple[ReplayRow, ...]

    @property
    def open(self) -> bool:
        """Test whether it waits or is at work."""
        return self.status in ("queued", "running") and not self.cut_short


def list_replays(
    *, visible: Visibility, username: str, pool_id: int, now: datetime
) -> tuple[Replay, ...]:
    """Return the last replays of a pool: one's own, or all for who sees the whole cluster."""
    found = _replays(visible, username).filter(pool_id=pool_id).order_by("-pk")
    return tuple(_replay(row, visible, now, units=False) for row in found)


def find_replay(
    *, visible: Visibility, username: str, replay_id: int, now: datetime
) -> Replay | None:
    """Return one replay, or None where there is none for the reader."""
    row = _replays(visible, username).filter(pk=replay_id).first()
    return None if row is None else _replay(row, visible, now, units=True)


def _replays(visible: Visibility, username: str) -> QuerySet[models.QuotaReplay]:
    found = models.QuotaReplay.objects.select_related("pool")
    if not visible.scratch:
        found = found.filter(pool__scratch=False)
    return found if visible.cluster else found.filter(requested_by=username)


def _replay(row: models.QuotaReplay, visible: Visibility, now: datetime, *, units: bool) -> Replay:
    result = row.result
    is_open = row.status in ("queued", "running")
    whole = visible.cluster and bool(result)
    return Replay(
        id=row.pk,
        pool_name=row.pool.name,
        days=row.days,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        status=row.status,
        cut_short=is_open and now - row.touched_at > STANDS_STILL,
        progress_permille=row.progress_permille,
        names=tuple(each["name"] for each in row.draft),
        since=_at(result.get("since")),
        until=_at(result.get("until")),
        ended_early=bool(result) and result["until"] != result["asked_until"],
        submitted=result["submitted"] if whole else None,
        left_out=result.get("left_out", 0) if whole else 0,
        never_ran=result.get("never_ran", 0) if whole else 0,
        free_before_h=_free(result, "before") if whole else None,
        free_after_h=_free(result, "after") if whole else None,
        rows=tuple(_rows(result, visible)) if units and result else (),
    )


def _at(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _free(result: Mapping[str, object], run: str) -> Decimal:
    played = result[run]
    assert isinstance(played, dict)
    held = sum(int(each["held"]) for each in played.values())
    return Decimal(int(str(result["capacity"])) - held) / GPU_HOUR


def _rows(
    result: Mapping[str, dict[str, dict[str, Any]]], visible: Visibility
) -> Iterable[ReplayRow]:
    price = Decimal(str(result["price"]))
    projects = models.Project.objects.filter(visible.projects()).select_related("department")
    by_department: dict[int, list[models.Project]] = {}
    for project in projects.order_by("department_id", "pk"):
        if str(project.pk) in result["before"] or str(project.pk) in result["after"]:
            by_department.setdefault(project.department_id, []).append(project)
    for department_id, own in by_department.items():
        if visible.cluster or department_id in visible.department_ids:
            yield _row(result, price, own, own[0].department.name, color=0)
        for project in own:
            yield _row(result, price, [project], project.name, color=project.color)


def _row(
    result: Mapping[str, dict[str, dict[str, Any]]],
    price: Decimal,
    projects: Sequence[models.Project],
    name: str,
    *,
    color: int,
) -> ReplayRow:
    before, after = (
        _figures([result[run].get(str(each.pk), {}) for each in projects], price)
        for run in ("before", "after")
    )
    return ReplayRow(name=name, color=color, is_department=not color, before=before, after=after)


def _figures(parts: Sequence[Mapping[str, Any]], price: Decimal) -> Figures:
    total = {name: sum(part.get(name, 0) for part in parts) for name in _COUNTS}
    held_h = Decimal(total["held"]) / GPU_HOUR
    waits_s = sorted(wait for part in parts for wait in part.get("waits_s", ()))
    return Figures(
        submitted=total["submitted"],
        wait_mean_s=sum(waits_s) // len(waits_s) if waits_s else None,
        wait_p95_s=waits_s[-(-len(waits_s) * 95 // 100) - 1] if waits_s else None,
        never_started=total["never_started"],
        interruptions=total["interruptions"],
        held_h=held_h,
        unused_h=Decimal(total["unused"]) / GPU_HOUR,
        cost=held_h * price if price else None,
    )
