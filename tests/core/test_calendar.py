"""Windows of each week as instants: right across both clock changes of a year, in three zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from scheduler.core.calendar import (
    Weekly,
    Window,
    instant_us,
    overlap,
    window_at,
    windows,
)
from scheduler.core.instants import from_us, to_us

EVERY_DAY = frozenset(range(7))
#: Zone, and a Monday before each of the two changes of 2026. Lord Howe's clocks move by half an hour.
CHANGES = [
    ("Europe/Berlin", date(2026, 3, 23)),
    ("Europe/Berlin", date(2026, 10, 19)),
    ("America/New_York", date(2026, 3, 2)),
    ("America/New_York", date(2026, 10, 26)),
    ("Australia/Lord_Howe", date(2026, 3, 30)),
    ("Australia/Lord_Howe", date(2026, 9, 28)),
]


def first_time_shown(day, minute, zone):
    """Walk minute by minute: the first instant at which the clock shows this reading or a later one."""
    reading = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=14)
    while at.astimezone(zone).replace(tzinfo=None) < reading:
        at += timedelta(minutes=1)
    return at


@pytest.mark.parametrize(("name", "monday"), CHANGES)
def test_each_switch_is_at_the_first_moment_at_which_the_clock_shows_it(name, monday):
    zone = ZoneInfo(name)
    for days in range(8):
        day = monday + timedelta(days=days)
        for minute in (0, 61, 110, 119, 120, 135, 150, 179, 180, 420, 1439):
            found = from_us(instant_us(day=day, minute=minute, zone=zone))
            assert found == first_time_shown(day, minute, zone), (day, minute)


@pytest.mark.parametrize(("name", "monday"), CHANGES)
@pytest.mark.parametrize(("begin", "end"), [(1140, 420), (60, 150), (150, 180), (130, 140), (0, 0)])
def test_a_window_holds_exactly_between_its_switches(name, monday, begin, end):
    # Given a window of Tuesdays to Sundays in the two weeks around a clock change
    zone = ZoneInfo(name)
    weekly = Weekly(days=EVERY_DAY - {0}, from_minute=begin, to_minute=end)
    since = to_us(datetime(monday.year, monday.month, monday.day, tzinfo=UTC))
    until = since + 14 * 86_400_000_000
    # When each quarter of an hour is asked for, then what holds is what the switches say
    expected = []
    for days in range(-1, 15):
        day = monday + timedelta(days=days)
        if day.weekday():
            last = begin + weekly.minutes
            later = day + timedelta(days=last // 1440)
            span = (first_time_shown(day, begin, zone), first_time_shown(later, last % 1440, zone))
            expected.append(span)
    for step in range(3 * 72):  # Saturday to Monday: the clocks change on Sunday
        at = from_us(since) + timedelta(days=5, minutes=20 * step)
        holds = any(first <= at < last for first, last in expected)
        found = window_at(weekly=weekly, zone=zone, at_us=to_us(at))
        assert (found is not None) == holds, at
    spans = list(windows(weekly=weekly, zone=zone, from_us_=since, to_us_=until))
    assert all(one.end_us < other.begin_us for one, other in pairwise(spans))


def test_a_window_inside_the_hour_that_does_not_exist_is_left_out_that_night():
    weekly = Weekly(days=frozenset({6}), from_minute=130, to_minute=140)
    zone = ZoneInfo("Europe/Berlin")
    since = to_us(datetime(2026, 3, 29, tzinfo=UTC))
    found = list(windows(weekly=weekly, zone=zone, from_us_=since, to_us_=since + 86_400_000_000))
    assert found == []


def test_on_a_holiday_none_begins_and_the_one_before_still_ends():
    # Given nights from 19:00 to 07:00 without the night of 25 December
    zone = ZoneInfo("Asia/Taipei")
    nights = Weekly(
        days=EVERY_DAY,
        from_minute=19 * 60,
        to_minute=7 * 60,
        holidays=frozenset({date(2026, 12, 25)}),
    )
    since = to_us(datetime(2026, 12, 24, 4, tzinfo=UTC))
    found = list(
        windows(weekly=nights, zone=zone, from_us_=since, to_us_=since + 2 * 86_400_000_000)
    )
    # Then the night of the 24th ends on the 25th, and the next begins on the 26th
    assert [from_us(each.begin_us).astimezone(zone).day for each in found] == [24]
    assert from_us(found[0].end_us).astimezone(zone) == datetime(2026, 12, 25, 7, tzinfo=zone)


def test_days_that_adjoin_are_one_window():
    weekend = Weekly(days=frozenset({5, 6}), from_minute=0, to_minute=0)
    zone = ZoneInfo("Europe/Berlin")
    since = to_us(datetime(2026, 10, 23, tzinfo=UTC))
    found = list(
        windows(weekly=weekend, zone=zone, from_us_=since, to_us_=since + 4 * 86_400_000_000)
    )
    assert found == [
        Window(
            begin_us=to_us(datetime(2026, 10, 24, tzinfo=zone)),
            end_us=to_us(datetime(2026, 10, 26, tzinfo=zone)),
        )
    ]


def weekly(days, begin, end):
    return Weekly(days=frozenset(days), from_minute=begin, to_minute=end)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (weekly([0, 1], 1140, 420), weekly([2], 420, 480), False),
        (weekly([0, 1], 1140, 420), weekly([2], 419, 480), True),
        (weekly([6], 1140, 420), weekly([0], 0, 60), True),
        (weekly([0], 60, 120), weekly([1], 60, 120), False),
        (weekly([0], 0, 0), weekly([0], 600, 601), True),
        (weekly([6], 0, 0), weekly([0], 0, 60), False),
    ],
)
def test_windows_overlap_where_they_hold_at_the_same_minute(one, other, both):
    assert overlap(one, other) is both
    assert overlap(other, one) is both
