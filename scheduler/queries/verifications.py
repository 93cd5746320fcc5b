"""Runs of the verifications as they are shown: in the reader's language, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.translation import gettext

from scheduler import models
from scheduler.models import VerificationLine, VerificationRun

RUNS_SHOWN = 20
#: So many lines of output are handed out at once to a page that begins to look.
LINES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One verification of a run. ``took_s``: None while it runs."""

    id: int
    number: str
    title: str
    status: str
    started_at: datetime | None
    took_s: int | None
    trouble: str
    pool_name: str
    passed: int
    checks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run."""

    id: int
    layout: str
    door: str
    requested_by: str
    cancelled_by: str
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    status: str
    trouble: str
    results: tuple[ResultRow, ...]

    @property
    def open(self) -> bool:
        """Test whether it waits or is under way."""
        return self.status in (VerificationRun.Status.QUEUED, VerificationRun.Status.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """One line. A check has all fields; the others only ``text``; output also who printed it."""

    id: int
    result_id: int
    at: datetime
    kind: str
    text: str = ""
    source: str = ""
    expected: str = ""
    seen: str = ""
    where: str = ""
    passed: bool = False


def in_words(said: object) -> str:
    """Return a kept sentence in the language of now: its template translated, its places filled."""
    if isinstance(said, dict):
        places = {name: in_words(value) for name, value in said.get("p", {}).items()}
        return gettext(str(said.get("t", ""))).format(**places)
    text = str(said)
    return gettext(text) if text else ""


def list_runs() -> tuple[RunRow, ...]:
    """Return the newest runs first. Three queries."""
    runs = list(VerificationRun.objects.order_by("-id")[:RUNS_SHOWN])
    return _runs(runs)


def read_run(*, run_id: int) -> RunRow | None:
    """Return one run, or None. Three queries."""
    return next(iter(_runs(list(VerificationRun.objects.filter(pk=run_id)))), None)


def list_last_results() -> dict[str, tuple[int, ResultRow]]:
    """Return of each verification the last one that ended by itself, with its run's id."""
    ended = (models.VerificationResult.Status.PASSED, models.VerificationResult.Status.FAILED)
    newest: dict[str, models.VerificationResult] = {}
    for row in models.VerificationResult.objects.filter(status__in=ended).order_by("id"):
        newest[row.number] = row
    counts = _counts([row.pk for row in newest.values()])
    return {number: (row.run_id, _result(row, counts)) for number, row in newest.items()}


def list_lines(
    *, run_id: int, after_id: int = 0, result_id: int | None = None, output: bool = True
) -> tuple[LineRow, ...]:
    """Return the lines of a run, oldest first; ``after_id``: only those that came later.

    A page that begins to look gets all that was said and the end of the output.
    """
    lines = VerificationLine.objects.filter(result__run_id=run_id, id__gt=after_id)
    if result_id is not None:
        lines = lines.filter(result_id=result_id)
    said = list(lines.exclude(kind=VerificationLine.Kind.LOG).order_by("id"))
    printed: list[VerificationLine] = []
    if output:
        logs = lines.filter(kind=VerificationLine.Kind.LOG)
        printed = list(logs.order_by("-id")[:LINES_AT_ONCE])
    return tuple(_line(row) for row in sorted([*said, *printed], key=lambda row: row.pk))


def _runs(runs: Sequence[VerificationRun]) -> tuple[RunRow, ...]:
    results = list(
        models.VerificationResult.objects.filter(run__in=[run.pk for run in runs]).order_by(
            "position"
        )
    )
    counts = _counts([row.pk for row in results])
    return tuple(
        RunRow(
            id=run.pk,
            layout=run.layout,
            door=run.door,
            requested_by=run.requested_by,
            cancelled_by=run.cancelled_by,
            requested_at=run.requested_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
            status=run.status,
            trouble=run.trouble,
            results=tuple(_result(row, counts) for row in results if row.run_id == run.pk),
        )
        for run in runs
    )


def _counts(result_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return by result how many checks passed, and how many there are."""
    found: dict[int, tuple[int, int]] = {}
    checks = VerificationLine.objects.filter(
        result_id__in=result_ids, kind=VerificationLine.Kind.CHECK
    )
    for result_id, body in checks.values_list("result_id", "body"):
        passed, total = found.get(result_id, (0, 0))
        found[result_id] = (passed + bool(body.get("passed")), total + 1)
    return found


def _result(row: models.VerificationResult, counts: dict[int, tuple[int, int]]) -> ResultRow:
    passed, checks = counts.get(row.pk, (0, 0))
    took_s = None
    if row.started_at is not None and row.ended_at is not None:
        took_s = int((row.ended_at - row.started_at).total_seconds())
    return ResultRow(
        id=row.pk,
        number=row.number,
        title=gettext(row.title),
        status=row.status,
        started_at=row.started_at,
        took_s=took_s,
        trouble=row.trouble,
        pool_name=row.pool_name,
        passed=passed,
        checks=checks,
    )


def _line(row: VerificationLine) -> LineRow:
    body = row.body
    line = LineRow(id=row.pk, result_id=row.result_id, at=row.at, kind=row.kind)
    if row.kind == VerificationLine.Kind.LOG:
        return replace(line, text=str(body["text"]), source=str(body["from"]))
    if row.kind == VerificationLine.Kind.CHECK:
        return replace(
            line,
            expected=in_words(body["expected"]),
            seen=in_words(body["seen"]),
            where=in_words(body["where"]),
            passed=bool(body["passed"]),
        )
    return replace(line, text=in_words(body["text"]))
