"""Windows that return each week, as instants: by weekday and minute in a zone, across clock changes.

What a clock reading means on the two odd days of a year: one that does not exist (clocks go forward) is
the moment at which they jump; one that comes twice (clocks go back) is its first coming. So readings
in order never become instants out of order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from scheduler.core.instants import from_us, to_us

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly:
    """A window of each of ``days`` (Monday is 0), from one minute of the day to another.

    It ends on the next day where ``to_minute`` is not after ``from_minute``: equal is 24 hours. On a
    holiday, a date of the zone, none begins.
    """

    days: frozenset[int]
    from_minute: int
    to_minute: int
    holidays: frozenset[date] = frozenset()

    @property
    def minutes(self) -> int:
        """Return how long each window is by the clock."""
        return (self.to_minute - self.from_minute) % DAY_MINUTES or DAY_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window: it holds from the first instant, and no longer at the second."""

    begin_us: int
    end_us: int


def instant_us(*, day: date, minute: int, zone: tzinfo) -> int:
    """Return when a clock of the zone shows ``minute`` of ``day``; from 1440 on it is the next day."""
    wall = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001
    local = wall.replace(tzinfo=zone)
    at = local.astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return to_us(at)
    return _jump_us(wall, zone)


def _jump_us(wall: datetime, zone: tzinfo) -> int:
    """Return the instant at which the clocks jump over ``wall``, to the second."""
    # With fold=1 the reading is taken by the offset after the jump, so it comes before it, and
    # with fold=0 by the one before, so it comes after.
    low = int(wall.replace(tzinfo=zone, fold=1).timestamp())
    high = int(wall.replace(tzinfo=zone, fold=0).timestamp())
    before = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high * 1_000_000


def windows(*, weekly: Weekly, zone: tzinfo, from_us_: int, to_us_: int) -> Iterator[Window]:
    """Return the windows that touch the stretch of time, in order; adjoining ones are one."""
    first = from_us(from_us_).astimezone(zone).date() - timedelta(days=8)
    last = from_us(to_us_).astimezone(zone).date() + timedelta(days=8)
    for window in _joined(weekly, zone, first, last):
        if window.end_us > from_us_ and window.begin_us < to_us_:
            yield window


def window_at(*, weekly: Weekly, zone: tzinfo, at_us: int) -> Window | None:
    """Return the window that holds at an instant, if any."""
    return next(iter(windows(weekly=weekly, zone=zone, from_us_=at_us, to_us_=at_us + 1)), None)


def overlap(one: Weekly, other: Weekly) -> bool:
    """Test whether windows of both would hold at the same time in a week without holidays."""
    return any(
        (begin - own) % WEEK_MINUTES < one.minutes or (own - begin) % WEEK_MINUTES < other.minutes
        for own in _begins(one)
        for begin in _begins(other)
    )


def _begins(weekly: Weekly) -> list[int]:
    return [day * DAY_MINUTES + weekly.from_minute for day in sorted(weekly.days)]


def _joined(weekly: Weekly, zone: tzinfo, first: date, last: date) -> Iterator[Window]:
    """Return the windows that begin on these days; a run of adjoining ones is cut at both ends."""
    current: Window | None = None
    day = first
    while day <= last:
        if day.weekday() in weekly.days and day not in weekly.holidays:
            begin_us = instant_us(day=day, minute=weekly.from_minute, zone=zone)
            until = weekly.from_minute + weekly.minutes
            end_us = instant_us(day=day, minute=until, zone=zone)
            if current is not None and begin_us <= current.end_us:
                current = Window(begin_us=current.begin_us, end_us=max(current.end_us, end_us))
            elif end_us > begin_us:
                if current is not None:
                    yield current
                current = Window(begin_us=begin_us, end_us=end_us)
        day += timedelta(days=1)
    if current is not None:
        yield current
