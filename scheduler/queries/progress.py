"""How far a workload is by its own word: its step, its rate, its numbers over time, and its runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Min, Q

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import END_PHASES, Phase
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt. ``until``: when its last replica was gone; None: it is still there."""

    attempt: int
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One of its numbers over time. The one without a name is the steps."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]

    @property
    def least(self) -> float:
        """The smallest value."""
        return min(value for _at_ms, value in self.points)

    @property
    def most(self) -> float:
        """The largest value."""
        return max(value for _at_ms, value in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """All of it. Rate and time left are those of the run that is on; None where nothing can be said."""

    at: datetime | None
    step: int | None
    total: int | None
    epoch: int | None
    steps_a_second: float | None
    left_s: int | None
    runs: tuple[Run, ...]
    series: tuple[Series, ...]

    @property
    def percent(self) -> int | None:
        """How much of it is done, rounded down."""
        if self.step is None or not self.total:
            return None
        return min(100, 100 * self.step // self.total)

    @property
    def metrics(self) -> tuple[Series, ...]:
        """The series that have a name."""
        return tuple(each for each in self.series if each.name)


def read_progress(*, visible: Visibility, workload_id: int) -> Progress | None:
    """Return what a workload reported, or None where there is no such workload for the reader."""
    workload = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
    ).first()
    return None if workload is None else progress_of(workload)


def progress_of(workload: models.Workload) -> Progress:
    """Return what a workload reported; the caller has asked whether the reader sees it. Three queries."""
    said = models.WorkloadProgress.objects.filter(workload=workload).first()
    rows = models.WorkloadSeries.objects.filter(workload=workload).order_by("name")
    series = tuple(
        Series(name=row.name, points=tuple((int(at_ms), value) for at_ms, value in row.points))
        for row in rows
        if row.points
    )
    runs = _runs(workload)
    steps = next((each.points for each in series if not each.name), ())
    is_on = bool(runs) and runs[-1].until is None and Phase(workload.phase) not in END_PHASES
    rate = _rate(steps, since=runs[-1].since) if is_on else None
    step, total = (None, None) if said is None else (said.step, said.total)
    return Progress(
        at=None if said is None else said.at,
        step=step,
        total=total,
        epoch=None if said is None else said.epoch,
        steps_a_second=rate,
        left_s=_left_s(step, total, rate),
        runs=runs,
        series=series,
    )


def _runs(workload: models.Workload) -> tuple[Run, ...]:
    rows = (
        models.Replica.objects.filter(workload=workload)
        .values("attempt")
        .annotate(
            since=Min("running_at"),
            booked=Min("booked_at"),
            until=Max("ended_at"),
            alive=Min("id", filter=Q(ended_at__isnull=True)),
        )
        .order_by("attempt")
    )
    return tuple(
        Run(
            attempt=row["attempt"],
            since=row["since"] or row["booked"],
            until=row["until"] if row["alive"] is None else None,
        )
        for row in rows
    )


def _rate(steps: tuple[tuple[int, float], ...], *, since: datetime) -> float | None:
    """Return steps a second over the newer half of a run, so that a slow begin is soon forgotten."""
    since_ms = to_us(since - timedelta(seconds=1)) // 1000
    own = [point for point in steps if point[0] >= since_ms]
    own = own[len(own) // 2 - 1 :] if len(own) > 3 else own
    if len(own) < 2:
        return None
    gone_ms, done = own[-1][0] - own[0][0], own[-1][1] - own[0][1]
    return done * 1000 / gone_ms if gone_ms > 0 and done > 0 else None


def _left_s(step: int | None, total: int | None, rate: float | None) -> int | None:
    if step is None or total is None or rate is None:
        return None
    return int(max(0, total - step) / rate)
