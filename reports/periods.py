"""Periods and their division into hours, days, weeks and months of a named time zone.

Only the cutting is local. The instants are UTC microseconds, so that a day of 23 or 25 hours is one
day, and an hour that comes twice is two.
"""

from __future__ import annotations

import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from enum import StrEnum

from django.utils.translation import gettext as _

from reports.refused import ReportRefused
from scheduler.core.instants import FIRST_YEAR, LAST_YEAR, from_us, to_us
from scheduler.core.usage import HOUR_US

MAX_SLOTS = 10_000
LONGEST_US = 5 * 366 * 24 * HOUR_US


class Bucket(StrEnum):
    """Into what a period is divided."""

    WHOLE = "whole"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One part of a period: [from_us, to_us) and its label, distinct from all others."""

    from_us: int
    to_us: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period as it was asked for: half-open, its end not after now."""

    from_us: int
    to_us: int
    zone: str
    #: The end lay in the future and is now.
    cut: bool = False

    @property
    def tz(self) -> tzinfo:
        """Its time zone."""
        return find_zone(name=self.zone)

    @property
    def from_at(self) -> datetime:
        """Its begin as local time."""
        return from_us(self.from_us).astimezone(self.tz)

    @property
    def to_at(self) -> datetime:
        """Its end as local time."""
        return from_us(self.to_us).astimezone(self.tz)


def find_zone(*, name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone of a name.

    Raises:
        ReportRefused: there is none of that name.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ReportRefused(
            _("There is no time zone {zone}. Use a name such as Asia/Taipei.").format(zone=name)
        ) from error


def make_span(*, from_at: datetime, to_at: datetime, zone: str, now: datetime) -> Span:
    """Return the period [from_at, to_at), cut at now.

    Raises:
        ReportRefused: it is empty, lies in the future or is longer than five years.
    """
    begin, end, now_us = to_us(from_at), to_us(to_at), to_us(now)
    if end <= begin:
        raise ReportRefused(_("The period is empty: its end is not after its begin."))
    if begin >= now_us:
        raise ReportRefused(_("The period lies in the future: nothing has been used yet."))
    if end - begin > LONGEST_US:
        raise ReportRefused(_("The period is longer than five years. Choose a shorter one."))
    return Span(from_us=begin, to_us=min(end, now_us), zone=zone, cut=end > now_us)


def parse_instant(*, text: str, zone: str) -> datetime:
    """Return "2026-11-01", "2026-11-01T10:30" or an ISO time with offset as an instant.

    Raises:
        ReportRefused: it is none of these, or in years that no clock here can tell.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ReportRefused(
            _("{text} is no date. Write it as 2026-11-01 or 2026-11-01T10:30.").format(text=text)
        ) from error
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise ReportRefused(
            _("{text} is not in the years {first} to {last}.").format(
                text=text, first=FIRST_YEAR, last=LAST_YEAR
            )
        )
    return found if found.tzinfo is not None else found.replace(tzinfo=find_zone(name=zone))


def previous_span(*, span: Span) -> Span:
    """Return the period before: as many whole months or local days, else as long."""
    begin, end = span.from_at, span.to_at
    if _is_midnight(begin) and _is_midnight(end):
        months = (end.year - begin.year) * 12 + end.month - begin.month
        if begin.day == end.day == 1 and months > 0:
            start = _months_before(begin.date(), months)
        else:
            start = begin.date() - (end.date() - begin.date())
        from_us_ = to_us(_midnight(start, span.tz))
    else:
        from_us_ = span.from_us - (span.to_us - span.from_us)
    return Span(from_us=from_us_, to_us=span.from_us, zone=span.zone)


def divide(*, span: Span, bucket: Bucket) -> tuple[Slot, ...]:
    """Return the parts of a period in order; together they are the period.

    Raises:
        ReportRefused: more than 10,000 parts.
    """
    if bucket is Bucket.WHOLE:
        return (Slot(from_us=span.from_us, to_us=span.to_us, label=""),)
    cuts = [span.from_us]
    for cut in _BOUNDARIES[bucket](span):
        if cut >= span.to_us:
            break
        if cut > cuts[-1]:
            cuts.append(cut)
        if len(cuts) > MAX_SLOTS:
            raise ReportRefused(
                _("That is more than 10,000 rows for each unit. Choose a longer step.")
            )
    cuts.append(span.to_us)
    labels = _labels(cuts[:-1], bucket, span.tz)
    return tuple(
        Slot(from_us=begin, to_us=end, label=label)
        for begin, end, label in zip(cuts, cuts[1:], labels, strict=False)
    )


def _hours(span: Span) -> Iterator[int]:
    """Yield the instants at which a local clock shows a full hour, or was changed to another."""
    at_us = span.from_us
    while True:
        local = from_us(at_us).astimezone(span.tz)
        past_us = ((local.minute * 60) + local.second) * 1_000_000 + local.microsecond
        at_us += HOUR_US - past_us
        yield at_us


def _days(span: Span) -> Iterator[int]:
    day = span.from_at.date()
    while True:
        day += timedelta(days=1)
        yield to_us(_midnight(day, span.tz))


def _weeks(span: Span) -> Iterator[int]:
    day = span.from_at.date()
    day -= timedelta(days=day.weekday())
    while True:
        day += timedelta(days=7)
        yield to_us(_midnight(day, span.tz))


def _months(span: Span) -> Iterator[int]:
    day = span.from_at.date().replace(day=1)
    while True:
        day = _months_before(day, -1)
        yield to_us(_midnight(day, span.tz))


_BOUNDARIES: dict[Bucket, Callable[[Span], Iterator[int]]] = {
    Bucket.HOUR: _hours,
    Bucket.DAY: _days,
    Bucket.WEEK: _weeks,
    Bucket.MONTH: _months,
}


def _midnight(day: date, tz: tzinfo) -> datetime:
    """Return the first instant of a local day, also where its clock skips midnight."""
    return datetime(day.year, day.month, day.day, tzinfo=tz)


def _is_midnight(at: datetime) -> bool:
    return at == _midnight(at.date(), at.tzinfo) if at.tzinfo else False


def _months_before(day: date, months: int) -> date:
    number = day.year * 12 + day.month - 1 - months
    return date(number // 12, number % 12 + 1, 1)


def moment(at: datetime) -> str:
    """Return a local time as it stands, seconds only where there are any."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at.second else f"{at:%Y-%m-%d %H:%M}"


def told_in(at: datetime, zone: str) -> str:
    """Return an instant as a zone's clock shows it; where it shows the same time twice, with the offset."""
    local = at.astimezone(find_zone(name=zone))
    is_shown_twice = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
    return f"{moment(local)} {local:%z}" if is_shown_twice else moment(local)


def _labels(starts: list[int], bucket: Bucket, tz: tzinfo) -> list[str]:
    """Return labels; where a clock shows the same time twice the offset tells them apart."""
    local = [from_us(at).astimezone(tz) for at in starts]
    labels = [_label(at, bucket) for at in local]
    count = Counter(labels)
    return [
        f"{label} {at:%z}" if count[label] > 1 else label
        for label, at in zip(labels, local, strict=True)
    ]


def _label(at: datetime, bucket: Bucket) -> str:
    if bucket is Bucket.HOUR:
        return f"{at:%Y-%m-%d %H:%M}"
    if bucket is Bucket.MONTH:
        return f"{at:%Y-%m}"
    return f"{at:%Y-%m-%d}"
