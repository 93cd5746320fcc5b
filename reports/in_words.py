"""One sentence for each unit: how often it borrowed, how much, and how much of its hours was idle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reports import numbers
from reports.consumption import Report, ReportRequest, Row, make_report
from reports.periods import Bucket
from scheduler.core.usage import DAY_US
from scheduler.queries.visibility import Visibility

#: Up to this length "how often" is counted in hours, beyond it in days.
IN_HOURS_US = 2 * DAY_US
MOST_UNITS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What a unit did, in words."""

    name: str
    color: int
    text: str


def tell(*, visible: Visibility, report: Report, now: datetime) -> tuple[Sentence, ...]:
    """Return a sentence for each unit, the largest first; nothing where guarantees aren't told."""
    if not report.total.guaranteed or not report.units:
        return ()
    request = report.request
    short = request.span.to_us - request.span.from_us <= IN_HOURS_US
    step = Bucket.HOUR if short else Bucket.DAY
    divided = _divided(visible, request, report, step, now)
    borrowed: dict[str, int] = defaultdict(int)
    for row in divided.rows:
        borrowed[_key(row)] += row.figures.over_quota > 0
    ordered = sorted(report.units, key=lambda row: (-row.figures.allocated, row.unit.name))
    return tuple(
        Sentence(
            name=row.unit.name,
            color=row.unit.color,
            text=_sentence(row, borrowed[_key(row)], len(divided.slots), step),
        )
        for row in ordered[:MOST_UNITS]
    )


def _divided(
    visible: Visibility, request: ReportRequest, report: Report, step: Bucket, now: datetime
) -> Report:
    if request.bucket is step:
        return report
    return make_report(visible=visible, request=replace(request, bucket=step), now=now)


def _key(row: Row) -> str:
    return f"{row.unit.id}-{row.unit.department_id}"


def _sentence(row: Row, times: int, steps: int, step: Bucket) -> str:
    figures = row.figures
    if not figures.allocated:
        return _("held nothing of the {deserved} h guaranteed.").format(
            deserved=numbers.shown_hours(figures.deserved)
        )
    places = {
        "held": numbers.shown_hours(figures.allocated),
        "deserved": numbers.shown_hours(figures.deserved),
        "over": numbers.shown_hours(figures.over_quota),
        "times": times,
        "steps": steps,
        "idle": numbers.shown_percent(part=figures.idle, whole=figures.allocated),
    }
    if not times:
        text = _(
            "held {held} of {deserved} h guaranteed and never borrowed; {idle} of what it held "
            "was idle."
        )
    elif step is Bucket.HOUR:
        text = ngettext(
            "held {held} h against {deserved} h guaranteed. It borrowed in {times} of {steps} "
            "hour, {over} h in all; {idle} of what it held was idle.",
            "held {held} h against {deserved} h guaranteed. It borrowed in {times} of {steps} "
            "hours, {over} h in all; {idle} of what it held was idle.",
            steps,
        )
    else:
        text = ngettext(
            "held {held} h against {deserved} h guaranteed. It borrowed on {times} of {steps} "
            "day, {over} h in all; {idle} of what it held was idle.",
            "held {held} h against {deserved} h guaranteed. It borrowed on {times} of {steps} "
            "days, {over} h in all; {idle} of what it held was idle.",
            steps,
        )
    return text.format(**places)
