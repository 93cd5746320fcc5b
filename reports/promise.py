"""How well guarantees were kept: one line a project, for page and CSV, with the same figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from reports.columns import iso
from reports.consumption import ReportRequest, label
from reports.csv_export import stream
from reports.numbers import decimal_text, gpu_hours, shown_hours
from reports.refused import ReportRefused
from scheduler.core.instants import to_us
from scheduler.core.promise import Kept
from scheduler.queries import promise as queries
from scheduler.queries import usage_names
from scheduler.queries.csv_text import guard
from scheduler.queries.promise import Promise
from scheduler.queries.usage_facts import Period
from scheduler.queries.visibility import Visibility

#: Longer periods are refused: each start of them is looked at.
LONGEST_US = 100 * 24 * 3_600_000_000
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
UNTOLD = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One project in the department of its time, all pools of the filter together."""

    project_id: int
    project: str
    department: str
    color: int
    promise: Promise


def make_lines(*, visible: Visibility, request: ReportRequest, now: datetime) -> list[Line]:
    """Return a line for each project that asked, was interrupted or interrupted, by name.

    Raises:
        ReportRefused: the period is longer than 100 days.
    """
    span = request.span
    if span.to_us - span.from_us > LONGEST_US:
        raise ReportRefused(
            _(
                "How well guarantees were kept is told for at most 100 days. Choose a shorter period."
            )
        )
    period = Period(from_us=span.from_us, to_us=span.to_us, now_us=to_us(now))
    found = queries.read_promises(visible=visible, wanted=request.wanted, period=period)
    names = usage_names.read_names(visible=visible)
    by_project: dict[tuple[int, int], list[Promise]] = {}
    for key, promise in found.items():
        by_project.setdefault((key.project_id, key.department_id), []).append(promise)
    lines = [
        Line(
            project_id=project_id,
            project=label(names.projects.get(project_id), project_id),
            department=label(names.departments.get(department_id), department_id),
            color=names.projects[project_id].color if project_id in names.projects else 0,
            promise=together(promises),
        )
        for (project_id, department_id), promises in by_project.items()
    ]
    return sorted(lines, key=lambda line: (line.department, line.project, line.project_id))


def together(promises: Sequence[Promise]) -> Promise:
    """Return several rows as one: waits as one list, all else added up."""
    return Promise(
        kept=Kept(
            waits_us=tuple(sorted(wait for one in promises for wait in one.kept.waits_us)),
            open_us=tuple(sorted(wait for one in promises for wait in one.kept.open_us)),
            short_us=sum(one.kept.short_us for one in promises),
        ),
        suffered=sum(one.suffered for one in promises),
        caused=sum(one.caused for one in promises),
        lost=sum(one.lost for one in promises),
        waited=sum(one.waited for one in promises),
    )


def shown(promise: Promise) -> dict[str, str]:
    """Return the texts of a row as the page shows them."""
    kept = promise.kept
    return {
        "served": str(len(kept.waits_us)),
        "p50": shown_wait(kept.percentile(50)),
        "p95": shown_wait(kept.percentile(95)),
        "worst": shown_wait(kept.worst_us),
        "waiting": str(len(kept.open_us)),
        "waited": shown_hours(promise.waited),
        "short": shown_hours(kept.short_us, unit=HOUR_US),
        "suffered": str(promise.suffered),
        "caused": str(promise.caused),
        "lost": shown_hours(promise.lost),
    }


def shown_wait(wait_us: int | None) -> str:
    """Return a wait as people read it: seconds with one place under a minute, then minutes, hours."""
    if wait_us is None:
        return UNTOLD
    seconds = wait_us // SECOND_US
    if seconds < 60:
        return _("{n} s").format(n=decimal_text(amount=wait_us, unit=SECOND_US, places=1))
    if seconds < 3600:
        return _("{m} min {s} s").format(m=seconds // 60, s=seconds % 60)
    return _("{h} h {m} min").format(h=seconds // 3600, m=seconds % 3600 // 60)


def _seconds(wait_us: int | None) -> str:
    return "" if wait_us is None else decimal_text(amount=wait_us, unit=SECOND_US, places=3)


_COLUMNS: tuple[tuple[str, bool, Callable[[Line], str]], ...] = (
    ("project_id", False, lambda line: str(line.project_id)),
    ("project", True, lambda line: line.project),
    ("department", True, lambda line: line.department),
    ("entitled_requests_served", False, lambda line: str(len(line.promise.kept.waits_us))),
    ("wait_p50_seconds", False, lambda line: _seconds(line.promise.kept.percentile(50))),
    ("wait_p95_seconds", False, lambda line: _seconds(line.promise.kept.percentile(95))),
    ("wait_worst_seconds", False, lambda line: _seconds(line.promise.kept.worst_us)),
    ("entitled_requests_waiting", False, lambda line: str(len(line.promise.kept.open_us))),
    (
        "below_guarantee_while_asking_hours",
        False,
        lambda line: decimal_text(amount=line.promise.kept.short_us, unit=HOUR_US, places=3),
    ),
    ("interruptions_suffered", False, lambda line: str(line.promise.suffered)),
    ("interruptions_caused", False, lambda line: str(line.promise.caused)),
    ("work_lost_gpu_hours", False, lambda line: gpu_hours(line.promise.lost)),
    ("gpu_waiting_hours", False, lambda line: gpu_hours(line.promise.waited)),
)


def told(line: Line) -> dict[str, str]:
    """Return a line as the CSV and the API tell it, by column."""
    return {name: value(line) for name, _text, value in _COLUMNS}


def promise_csv(*, request: ReportRequest, lines: Sequence[Line], filters: str) -> Iterator[bytes]:
    """Yield the lines as CSV."""
    span = request.span
    trailing = (iso(span.from_at), iso(span.to_at), span.zone, guard(filters))
    header = [name for name, _text, _value in _COLUMNS]
    text = {name for name, is_text, _value in _COLUMNS if is_text}
    rows = (
        [
            *(guard(value) if name in text else value for name, value in told(line).items()),
            *trailing,
        ]
        for line in lines
    )
    return stream(header=[*header, "period_start", "period_end", "timezone", "filters"], lines=rows)
