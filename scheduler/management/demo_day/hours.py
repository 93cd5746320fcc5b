"""How busy each hour is: office hours, and services that live by other hours."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.management.simulation.day import WANTED_BY_HOUR

MINUTES = 24 * 60
#: A day begins before the morning's rise, so that something happens at once.
BEGINS_AT_MINUTE = 7 * 60
#: Later services of the list are busy some hours later: not all tides come at one time.
SHIFT_HOURS = (0, 3, -2)
#: Below this part of the peak nobody asks at all: a service may then go to zero.
QUIET_PERCENT = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """A time of a day that passes faster."""

    days: int
    minute: int


def time_of_day(*, passed_s: float, day_s: int) -> Hour:
    """Return the time after ``passed_s`` seconds, where a day takes ``day_s``."""
    minutes = BEGINS_AT_MINUTE + int(passed_s * MINUTES / day_s)
    return Hour(days=minutes // MINUTES, minute=minutes % MINUTES)


def busy_percent(*, minute: int, position: int) -> int:
    """Return how busy the service at a position of the list is, in percent of its peak."""
    shifted = (minute - 60 * SHIFT_HOURS[position % len(SHIFT_HOURS)]) % MINUTES
    hour, rest = divmod(shifted, 60)
    here, then = WANTED_BY_HOUR[hour], WANTED_BY_HOUR[(hour + 1) % 24]
    percent = round(100 * (here + (then - here) * rest / 60) / max(WANTED_BY_HOUR))
    return percent if percent >= QUIET_PERCENT else 0
