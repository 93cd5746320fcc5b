"""What a workload reports of itself, from its output or by the API, into the tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.operations import series
from scheduler.operations.refused import Problem, Refused

MOST_METRICS = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How far it is, in what it counts, and some of its numbers."""

    at: datetime
    step: int | None = None
    total: int | None = None
    epoch: int | None = None
    metrics: tuple[tuple[str, float], ...] = field(default=())


def find_problems(report: Report, *, workload_id: int) -> list[Problem]:
    """Return what of a report can't be kept."""
    problems = [
        Problem(
            field=f"metrics.{name}"[:100],
            code="metric_name",
            message="A name has at most 64 letters, digits, dots, dashes, slashes and underscores.",
        )
        for name, _value in report.metrics
        if not _NAME.fullmatch(name)
    ]
    problems += [
        Problem(field=f"metrics.{name}", code="not_finite", message="It must be a finite number.")
        for name, value in report.metrics
        if not math.isfinite(value) and _NAME.fullmatch(name)
    ]
    known = models.WorkloadSeries.objects.filter(workload_id=workload_id).exclude(name="")
    names = {*known.values_list("name", flat=True), *(name for name, _value in report.metrics)}
    if len(names) > MOST_METRICS:
        problems.append(
            Problem(
                field="metrics",
                code="too_many_metrics",
                message="A workload may report {most} different metrics.",
                params={"most": MOST_METRICS},
            )
        )
    return problems


def report(*, workload_id: int, given: Report) -> None:
    """Keep one report that a replica sent.

    Raises:
        Refused: a name, a value or the number of names is not allowed; nothing is kept.
    """
    problems = find_problems(given, workload_id=workload_id)
    if problems:
        raise Refused(problems)
    keep(workload_id=workload_id, reports=[given])


@transaction.atomic
def keep(*, workload_id: int, reports: Sequence[Report], source: str = "", number: int = 0) -> None:
    """Keep reports that are sound, the oldest first. Names beyond the number allowed are passed over.

    ``number`` is that of the last of them in the output of ``source``.
    """
    models.WorkloadProgress.objects.get_or_create(
        workload_id=workload_id, defaults={"at": reports[-1].at}
    )
    row = models.WorkloadProgress.objects.select_for_update().get(workload_id=workload_id)
    for each in reports:
        row.step = row.step if each.step is None else each.step
        row.total = row.total if each.total is None else each.total
        row.epoch = row.epoch if each.epoch is None else each.epoch
        row.at = max(row.at, each.at)
    if source:
        row.taken = {**_latest(row.taken), source: number}
    row.save()
    _keep_series(workload_id, reports)


def _latest(taken: dict[str, int]) -> dict[str, int]:
    """Return what is known of the replicas that came last: those before have ended long ago."""
    return dict(list(taken.items())[-200:])


def _keep_series(workload_id: int, reports: Sequence[Report]) -> None:
    new: dict[str, list[series.Point]] = {}
    for each in reports:
        at_ms = to_us(each.at) // 1000
        if each.step is not None:
            new.setdefault("", []).append((at_ms, each.step))
        for name, value in each.metrics:
            new.setdefault(name, []).append((at_ms, value))
    rows = {row.name: row for row in models.WorkloadSeries.objects.filter(workload_id=workload_id)}
    room = MOST_METRICS - sum(1 for name in rows if name)
    for name, points in new.items():
        row = rows.get(name)
        if row is None:
            if name and room <= 0:
                continue
            room -= 1 if name else 0
            row = models.WorkloadSeries(workload_id=workload_id, name=name)
        before = [(int(at_ms), value) for at_ms, value in row.points]
        row.points, row.width_ms = series.add(before, width_ms=row.width_ms, new=points)
        row.save()
