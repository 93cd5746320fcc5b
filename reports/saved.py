"""Reports that stay as they were made, on request or on a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from reports.asked import Asked, Preset, parse_asked
from reports.columns import COLUMNS, iso
from reports.consumption import Report, Row, make_report
from reports.csv_export import file_name, stream
from reports.periods import parse_instant, told_in
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Readers
from scheduler.operations import saved_reports
from scheduler.operations.authority import Authority, NotPermitted
from scheduler.queries import saved_reports as queries
from scheduler.queries.csv_text import guard
from scheduler.queries.saved_reports import Saved, Schedule
from scheduler.queries.visibility import Visibility

MOST_LINES = 20_000
#: Scheduled reports are made a quarter of an hour after their period's end, when its last hour is closed.
AFTER = timedelta(minutes=15)

#: What a scheduled report is about, by how often it is made.
PERIODS = {
    "day": Preset.YESTERDAY,
    "week": Preset.LAST_WEEK,
    "month": Preset.LAST_MONTH,
}


def save(
    *,
    visible: Visibility,
    asked: Asked,
    name: str,
    authority: Authority,
    now: datetime,
    readers: Readers = Readers.ME,
    schedule_id: int | None = None,
) -> int:
    """Make a report and keep it as it is now; return its number.

    Raises:
        ReportRefused: it has no name or more than 20,000 rows.
        NotPermitted: for readers that the caller may not make it readable for.
    """
    text = _checked_name(name)
    report = make_report(visible=visible, request=asked.request, now=now)
    if len(report.rows) > MOST_LINES:
        raise ReportRefused(_("A saved report has at most 20,000 rows. Choose a longer step."))
    return saved_reports.save_report(
        name=text,
        authority=authority,
        query=asked.words(),
        content=_content(report),
        covers=_covers(visible, asked),
        readers=readers,
        now=now,
        schedule_id=schedule_id,
    )


def schedule(
    *,
    asked: Asked,
    name: str,
    authority: Authority,
    every: str,
    language: str,
    mail_to: str,
    now: datetime,
    readers: Readers = Readers.ME,
) -> int:
    """Have a report of each day, week or month made from now on; return the schedule's number.

    Raises:
        ReportRefused: no name, a name that is taken, or an unknown rhythm.
        NotPermitted: for readers that the caller may not make it readable for.
    """
    if every not in PERIODS:
        raise ReportRefused(_("A report is made each day, week or month."))
    zone = asked.request.span.zone
    try:
        return saved_reports.create_schedule(
            wanted=saved_reports.NewSchedule(
                name=_checked_name(name),
                every=every,
                zone=zone,
                language=language,
                query=_lasting_words(asked),
                mail_to=mail_to,
                readers=readers,
                next_at=next_time(every=every, zone=zone, after=now),
            ),
            authority=authority,
            now=now,
        )
    except saved_reports.NameTaken as taken:
        raise ReportRefused(
            _("You have a scheduled report called {name}. Choose another name.").format(name=name)
        ) from taken


def require_within(*, asked: Asked, visible: Visibility) -> None:
    """Refuse what a token of a narrower scope may not have made: a schedule sees what its owner does.

    Raises:
        NotPermitted: it does not name units that all are of that scope.
    """
    if not queries.asks_within(query=_lasting_words(asked), visible=visible):
        raise NotPermitted(
            "This token sees only a part of what you see. Name departments or projects of its scope.",
            code="schedule_beyond_token",
        )


def _lasting_words(asked: Asked) -> dict[str, list[str]]:
    """Return what is asked for without its period, which follows from the time it is made."""
    of_period = ("period", "from", "to", "compare")
    return {name: values for name, values in asked.words().items() if name not in of_period}


def make_scheduled(
    *, visible: Visibility, authority: Authority, due: Schedule, now: datetime
) -> int | None:
    """Make the report of a due schedule with its owner's rights of now; None where another process did.

    A time that was missed is made up for by the latest report alone. One that was for everyone is for
    those who see its units once its owner may no longer share with everyone.
    """
    following = next_time(every=due.every, zone=due.zone, after=now)
    if not saved_reports.take_due(schedule_id=due.id, next_at=following, now=now):
        return None
    words = {**due.query, "period": [PERIODS[due.every].value]}
    asked = parse_asked(words=words, zone=due.zone, now=now)
    return save(
        visible=visible,
        asked=asked,
        name=due.name,
        authority=authority,
        now=now,
        readers=saved_reports.readers_allowed(readers=Readers(due.readers), authority=authority),
        schedule_id=due.id,
    )


def _covers(visible: Visibility, asked: Asked) -> dict[str, Any]:
    """Return what one must see to be told all that a report tells."""
    wanted = asked.request.wanted
    if wanted.project_ids and wanted.project_ids == queries.read_projects(
        ids=wanted.project_ids, visible=visible
    ):
        return {"cluster": False, "departments": [], "projects": sorted(wanted.project_ids)}
    whole = visible.cluster or wanted.department_ids <= visible.department_ids
    if wanted.department_ids and whole:
        return {"cluster": False, "departments": sorted(wanted.department_ids), "projects": []}
    return {
        "cluster": visible.cluster,
        "departments": sorted(visible.department_ids),
        "projects": sorted(visible.project_ids),
    }


def next_time(*, every: str, zone: str, after: datetime) -> datetime:
    """Return when the next period will have ended, and a quarter of an hour."""
    start = parse_instant(text=after.date().isoformat(), zone=zone)
    day = after.astimezone(start.tzinfo).date() - timedelta(days=1)
    while True:
        day += timedelta(days=1)
        at = parse_instant(text=day.isoformat(), zone=zone) + AFTER
        if _begins(every, day) and at > after:
            return at


def _begins(every: str, day: date) -> bool:
    return every == "day" or (day.weekday() == 0 if every == "week" else day.day == 1)


def saved_csv(*, saved: Saved) -> Iterator[bytes]:
    """Yield a saved report as the CSV that it would have been."""
    text = {column.name for column in COLUMNS if column.text}
    header: list[str] = saved.content["header"]
    lines = (
        [guard(value) if name in text else value for name, value in zip(header, line, strict=True)]
        for line in saved.content["lines"]
    )
    return stream(header=header, lines=lines)


def told_time(content: Mapping[str, Any], text: str) -> str:
    """Return a time that a saved report keeps, as its zone's clock shows it."""
    return told_in(datetime.fromisoformat(text), content["zone"]) if text else ""


def _content(report: Report) -> dict[str, Any]:
    span = report.request.span
    return {
        "header": [column.name for column in COLUMNS],
        "lines": [_line(report, row) for row in report.rows],
        "total": _line(report, report.total),
        "period_start": iso(span.from_at),
        "period_end": iso(span.to_at),
        "zone": span.zone,
        "segment": report.request.segment.value,
        "bucket": report.request.bucket.value,
        "filters": report.filters,
        "currency": report.cluster.currency,
        "cluster": report.cluster.name,
        "file": file_name(request=report.request),
    }


def _line(report: Report, row: Row) -> list[str]:
    return [column.value(report, row) for column in COLUMNS]


def _checked_name(name: str) -> str:
    text = " ".join(name.split())
    if not text or len(text) > 120:
        raise ReportRefused(_("Give the report a name of 1 to 120 characters."))
    return text
