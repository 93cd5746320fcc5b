"""The report over a ledger written by hand: its figures, its cuts, its names and whom it shows what."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest

from reports import intervals, numbers
from reports.consumption import ReportRequest, Segment, make_previous, make_report
from reports.periods import Bucket, divide, make_span, parse_instant, previous_span
from reports.refused import ReportRefused
from scheduler.core import usage
from scheduler.core.instants import to_us
from scheduler.core.usage import GPU_HOUR
from scheduler.queries.usage_facts import UsageFilter
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 12, 15)


def span(begin, end, *, zone="UTC", now=NOW):
    return make_span(
        from_at=parse_instant(text=begin, zone=zone),
        to_at=parse_instant(text=end, zone=zone),
        zone=zone,
        now=now,
    )


def report(begin, end, *, zone="UTC", visible=WHOLE_CLUSTER, now=NOW, **request):
    return make_report(
        visible=visible,
        request=ReportRequest(span=span(begin, end, zone=zone, now=now), **request),
        now=now,
    )


def hours(made, name="allocated"):
    """Every unit's hours by its name."""
    return {row.unit.name: numbers.gpu_hours(getattr(row.figures, name)) for row in made.units}


def by_slot(made, name="allocated"):
    return {row.slot.label: numbers.gpu_hours(getattr(row.figures, name)) for row in made.rows}


@pytest.fixture
def ledger(db):
    return Ledger().department("dev", quota="1")


# --- Figures --------------------------------------------------------------------------------------


def test_b31_waiting_after_a_preemption_is_not_charged_and_told_apart(ledger):
    # Given a training of 0.50 in a project without guarantee: 10:00-10:20, preempted, 10:50-11:10
    ledger.project("research", of="dev", quota="0")
    first = ledger.hold(
        "research", "0.50", utc(2026, 11, 2, 10), utc(2026, 11, 2, 10, 20), workload="train"
    )
    second = ledger.hold(
        "research", "0.50", utc(2026, 11, 2, 10, 50), utc(2026, 11, 2, 11, 10), workload="train",
        asked_us=to_us(utc(2026, 11, 2, 10, 20)),
    )  # fmt: skip

    made = report("2026-11-02T10:00", "2026-11-02T12:00")

    # Then 40 minutes of a half are charged and all of them were borrowed
    assert hours(made) == {"research": "0.333"}
    assert hours(made, "over_quota") == {"research": "0.333"}
    assert (first.workload_id, first.attempt) == (second.workload_id, 1)
    assert second.attempt == 2
    # And the half hour of waiting stands beside its interval, where nothing is summed
    request = ReportRequest(span=span("2026-11-02T10:00", "2026-11-02T12:00"))
    listed = intervals.export(visible=WHOLE_CLUSTER, request=request, now=NOW)
    lines = list(csv.DictReader(io.StringIO(b"".join(listed).decode("utf-8-sig"))))
    told = [(one["attempt"], one["gpu_hours_in_period"], one["waited_seconds"]) for one in lines]
    assert told == [("1", "0.167", ""), ("2", "0.167", "1800.000")]
    assert len({one["workload_id"] for one in lines}) == 1


def test_b32_a_guarantee_changed_at_noon_and_the_same_report_a_month_later(ledger):
    ledger.department("other").project("a", of="dev", quota="0.30", since=utc(2026, 11, 2))
    ledger.quota("a", "0.60", since=utc(2026, 11, 2, 12))
    ledger.hold("a", "0.40", utc(2026, 11, 2), None)
    that_evening = report("2026-11-02", "2026-11-03", now=utc(2026, 11, 3))

    ledger.quota("a", "0.05", since=utc(2026, 11, 20))
    a_month_later = report("2026-11-02", "2026-11-03", now=utc(2026, 12, 2))

    for made in (that_evening, a_month_later):
        assert hours(made) == {"a": "9.600"}
        assert hours(made, "deserved") == {"a": "10.800"}
        assert hours(made, "over_quota") == {"a": "1.200"}
        assert hours(made, "unused") == {"a": "2.400"}


def test_a_guarantee_halved_in_the_middle_of_the_day_deserves_five_point_four(ledger):
    ledger.project("a", of="dev", quota="0.30")
    ledger.quota("a", "0.15", since=utc(2026, 11, 2, 12))

    assert hours(report("2026-11-02", "2026-11-03"), "deserved") == {"a": "5.400"}


def test_b03_from_the_second_of_a_cut_on_what_is_above_it_counts_as_borrowed(ledger):
    # Given a workspace of 0.20 and a training of 0.10 all day, and the guarantee of 0.30 cut to
    # 0.15 at noon and raised again at two
    ledger.project("a", of="dev", quota="0.30", since=utc(2026, 11, 2))
    ledger.hold("a", "0.20", utc(2026, 11, 2), None, kind="workspace")
    ledger.hold("a", "0.10", utc(2026, 11, 2), None)
    ledger.quota("a", "0.15", since=utc(2026, 11, 2, 12))
    ledger.quota("a", "0.30", since=utc(2026, 11, 2, 14))

    made = report("2026-11-02T10:00", "2026-11-02T16:00", bucket=Bucket.HOUR)

    # Then 0.15 an hour is borrowed between, nothing before and after, and what is left is never below 0
    borrowed = [numbers.gpu_hours(row.figures.over_quota) for row in made.rows]
    assert borrowed == ["0.000", "0.000", "0.150", "0.150", "0.000", "0.000"]
    assert {numbers.gpu_hours(row.figures.unused) for row in made.rows} == {"0.000"}


def test_b32_a_project_made_at_six_deserves_eighteen_hours(ledger):
    ledger.project("a", of="dev", quota="1", since=utc(2026, 11, 2, 6))

    assert hours(report("2026-11-02", "2026-11-03"), "deserved") == {"a": "18.000"}


def test_b32_a_moved_project_keeps_its_hours_in_each_department(ledger):
    # Given a project that moves at 18:00; its running work is booked again by its new department
    ledger.department("ops").project("a", of="dev", quota="0.50", since=utc(2026, 11, 2))
    ledger.hold("a", "0.40", utc(2026, 11, 2), utc(2026, 11, 2, 18))
    ledger.move("a", to="ops", at=utc(2026, 11, 2, 18))
    ledger.hold("a", "0.40", utc(2026, 11, 2, 18), utc(2026, 11, 3))

    departments = report("2026-11-02", "2026-11-03", segment=Segment.DEPARTMENT)
    projects = report("2026-11-02", "2026-11-03", segment=Segment.PROJECT)

    assert hours(departments) == {"dev": "7.200", "ops": "2.400"}
    assert hours(departments, "deserved") == {"dev": "9.000", "ops": "3.000"}
    assert [(r.unit.department, r.figures.allocated) for r in projects.units] == [
        ("dev", 18 * GPU_HOUR * 4 // 10),
        ("ops", 6 * GPU_HOUR * 4 // 10),
    ]
    # And the new department's admin sees the hours of its time alone
    head = Visibility(department_ids=frozenset({ledger.departments["ops"].pk}))
    assert hours(report("2026-11-02", "2026-11-03", visible=head)) == {"a": "2.400"}


def test_a_department_borrows_from_others_only_beyond_its_own_guarantee(ledger):
    # Given 1.00 for the department, 0.60 of it for a and 0.40 for b, and a alone holds 0.90, then 1.30
    ledger.project("a", of="dev", quota="0.60").project("b", of="dev", quota="0.40")
    ledger.hold("a", "0.90", utc(2026, 11, 2), utc(2026, 11, 2, 2))
    ledger.hold("a", "0.40", utc(2026, 11, 2, 1), utc(2026, 11, 2, 2))

    made = report("2026-11-02", "2026-11-02T02:00", segment=Segment.DEPARTMENT)

    # Then a was over by 0.30 and 0.70, of which siblings lent 0.40 at any time
    row = made.units[0]
    assert numbers.gpu_hours(row.figures.over_quota) == "1.000"
    assert numbers.gpu_hours(row.beyond) == numbers.gpu_hours(made.total.beyond) == "0.300"
    assert report("2026-11-02", "2026-11-03").units[0].beyond is None


def test_idle_active_and_unknown_make_up_what_was_held(ledger):
    ledger.project("a", of="dev", quota="1")
    held = ledger.hold("a", "0.50", utc(2026, 11, 2), utc(2026, 11, 2, 4))
    ledger.seen(held, utc(2026, 11, 2), utc(2026, 11, 2, 1), idle=True)
    ledger.seen(held, utc(2026, 11, 2, 3), utc(2026, 11, 2, 5), idle=False)

    figures = report("2026-11-02", "2026-11-03").total.figures

    assert (figures.idle, figures.active, figures.unknown) == (
        GPU_HOUR // 2,
        GPU_HOUR // 2,
        GPU_HOUR,
    )


def test_hours_cost_the_price_in_force(ledger):
    ledger.price("74", since=utc(2026, 1, 1)).price("80.50", since=utc(2026, 11, 2, 12))
    ledger.price("10", since=utc(2026, 11, 2, 18), gpu_model="L40S")
    ledger.project("a", of="dev", quota="1")
    held = ledger.hold("a", "0.50", utc(2026, 11, 2), utc(2026, 11, 3))
    ledger.seen(held, utc(2026, 11, 2, 11), utc(2026, 11, 2, 13), idle=True)

    figures = report("2026-11-02", "2026-11-03").total.figures

    # 12 h at 74, 6 h at 80.50, 6 h at the model's own 10, of one half each
    assert numbers.money(figures.cost) == "715.50"
    assert numbers.money(figures.idle_cost) == "77.25"


@pytest.mark.parametrize("segment", list(Segment))
@pytest.mark.parametrize("bucket", [Bucket.WHOLE, Bucket.HOUR, Bucket.DAY])
def test_rows_add_up_to_the_total_by_every_segment_and_step(ledger, segment, bucket):
    ledger.department("ops").project("a", of="dev", quota="0.30").project("b", of="ops", quota="0")
    ledger.hold("a", "0.45", utc(2026, 11, 2, 3, 17), utc(2026, 11, 3, 9, 31), user="ann")
    ledger.hold("b", "0.07", utc(2026, 11, 1, 3, 17), None, user="bob", kind="inference")

    made = report("2026-11-01T12:34", "2026-11-04T05:06", segment=segment, bucket=bucket)

    whole = report("2026-11-01T12:34", "2026-11-04T05:06", segment=Segment.CLUSTER)
    sums = usage.sum_figures(rows=[row.figures for row in made.rows])
    assert sums == made.total.figures
    if made.total.guaranteed:
        assert sums == whole.total.figures
        assert all(usage.problems(row=row.figures) == [] for row in made.rows)
    else:
        assert sums.allocated == whole.total.figures.allocated


def test_a_filter_on_kinds_counts_that_work_alone_and_tells_no_guarantee(ledger):
    ledger.project("a", of="dev", quota="0.30")
    ledger.hold("a", "0.50", utc(2026, 11, 2), utc(2026, 11, 2, 2), kind="training")
    ledger.hold("a", "0.25", utc(2026, 11, 2), utc(2026, 11, 2, 2), kind="inference")

    made = report("2026-11-02", "2026-11-03", wanted=UsageFilter(kinds=frozenset({"inference"})))

    assert hours(made) == {"a": "0.500"}
    assert not made.units[0].guaranteed
    assert made.filters == "kind=inference"


# --- Cuts -----------------------------------------------------------------------------------------


def test_b30_half_an_hour_on_each_side_of_midnight_in_taipei(ledger):
    ledger.project("a", of="dev")
    taipei = "Asia/Taipei"
    begin = parse_instant(text="2026-11-01T23:30", zone=taipei)
    ledger.hold("a", "1", begin, begin + timedelta(hours=1))

    made = report("2026-11-01", "2026-11-03", zone=taipei, bucket=Bucket.DAY)

    assert by_slot(made) == {"2026-11-01": "0.500", "2026-11-02": "0.500"}
    assert {row.slot.from_us for row in made.rows} == {
        to_us(utc(2026, 10, 31, 16)),
        to_us(utc(2026, 11, 1, 16)),
    }


@pytest.mark.parametrize(("second", "held_s"), [(59, 1799), (60, 1800)])
def test_b30_a_day_asked_for_in_its_last_second_has_no_part_of_the_next(ledger, second, held_s):
    # Given a card held since 23:30 in Taipei, when its day is asked for at 23:59:59, or at midnight
    ledger.project("a", of="dev")
    ledger.hold("a", "1", utc(2026, 11, 1, 15, 30), None)
    now = utc(2026, 11, 1, 15, 59) + timedelta(seconds=second)
    made = report("2026-11-01", "2026-11-02", zone="Asia/Taipei", bucket=Bucket.DAY, now=now)
    # Then it has one row, of that day, up to that second
    (row,) = made.rows
    assert row.slot.label == "2026-11-01"
    assert row.figures.allocated == 1000 * held_s * 1_000_000
    assert made.request.span.to_at == now


CLOCK_CHANGES = [
    # on this day             clock is      hours  of 0.50
    ("2026-11-01", "2026-11-02", 25, "12.500"),
    ("2026-03-08", "2026-03-09", 23, "11.500"),
]


@pytest.mark.parametrize(("begin", "end", "rows", "held"), CLOCK_CHANGES)
def test_b30_a_day_on_which_clocks_change_is_one_day(ledger, begin, end, rows, held):
    ledger.project("a", of="dev")
    ledger.hold("a", "0.50", utc(2026, 1, 1), None)
    zone = "America/New_York"

    days = report(begin, end, zone=zone, bucket=Bucket.DAY)
    by_hour = report(begin, end, zone=zone, bucket=Bucket.HOUR)

    assert by_slot(days) == {begin: held}
    assert len(by_slot(by_hour)) == len(by_hour.rows) == rows
    assert set(by_slot(by_hour).values()) == {"0.500"}


def test_b30_the_hour_that_comes_twice_is_told_apart_by_its_offset():
    labels = [
        slot.label
        for slot in divide(
            span=span("2026-11-01", "2026-11-01T03:00", zone="America/New_York"),
            bucket=Bucket.HOUR,
        )
    ]

    assert labels == [
        "2026-11-01 00:00",
        "2026-11-01 01:00 -0400",
        "2026-11-01 01:00 -0500",
        "2026-11-01 02:00",
    ]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe"])
def test_hours_begin_at_full_local_hours_in_zones_of_half_hours(zone):
    slots = divide(span=span("2026-04-04", "2026-04-06", zone=zone), bucket=Bucket.HOUR)

    assert all(slot.label[14:16] in ("00", "30") for slot in slots)
    assert sum(slot.label[14:16] == "30" for slot in slots) <= 1
    assert all(slot.to_us - slot.from_us <= usage.HOUR_US for slot in slots)


@pytest.mark.parametrize(
    ("zone", "day"), [("America/Santiago", "2026-09-06"), ("Africa/Cairo", "2026-04-24")]
)
def test_a_day_whose_midnight_is_skipped_begins_at_its_first_instant(zone, day):
    slots = divide(span=span("2026-04-01", "2026-10-01", zone=zone), bucket=Bucket.DAY)

    lengths = {slot.label: (slot.to_us - slot.from_us) // usage.HOUR_US for slot in slots}
    assert lengths[day] == 23
    assert len(lengths) == 183


def test_b30_days_add_up_to_the_month_in_every_zone(ledger):
    ledger.project("a", of="dev", quota="0.30")
    ledger.hold("a", "0.37", utc(2026, 10, 30, 1, 2, 3), utc(2026, 11, 29, 4, 5, 6))
    for zone in ("Asia/Taipei", "America/New_York", "Asia/Kathmandu"):
        days = report("2026-11-01", "2026-12-01", zone=zone, bucket=Bucket.DAY)
        month = report("2026-11-01", "2026-12-01", zone=zone, bucket=Bucket.MONTH)

        assert len(days.slots) == 30
        assert by_slot(month).keys() == {"2026-11"}
        assert days.total.figures == month.total.figures


def test_weeks_begin_on_monday():
    slots = divide(span=span("2026-11-04", "2026-11-18"), bucket=Bucket.WEEK)

    assert [slot.label for slot in slots] == ["2026-11-04", "2026-11-09", "2026-11-16"]


def test_a_period_that_ends_in_the_future_ends_now_and_says_so():
    asked = span("2026-12-01", "2027-01-01", now=utc(2026, 12, 15, 23, 59, 59))

    assert asked.cut
    assert asked.to_at == utc(2026, 12, 15, 23, 59, 59)


REFUSED = [
    ("2026-11-02", "2026-11-02", "empty"),
    ("2026-11-03", "2026-11-02", "empty"),
    ("2027-11-02", "2027-11-03", "future"),
    ("2016-11-02", "2026-11-02", "five years"),
    ("yesterday", "2026-11-02", "no date"),
    ("0001-01-01", "0001-01-02", "years 1970 to 9000"),
    ("2026-11-01", "9999-12-31", "years 1970 to 9000"),
]


@pytest.mark.parametrize(("begin", "end", "word"), REFUSED)
def test_a_period_that_can_not_be_answered_is_refused_in_words(begin, end, word):
    with pytest.raises(ReportRefused, match=word):
        span(begin, end)


def test_b45_too_many_rows_are_refused_in_words():
    with pytest.raises(ReportRefused, match="longer step"):
        divide(span=span("2024-11-02", "2026-11-02"), bucket=Bucket.HOUR)


PREVIOUS = [
    # the period                        is compared with
    ("2026-11-01", "2026-12-01", "2026-10-01"),
    ("2026-03-01", "2026-06-01", "2025-12-01"),
    ("2026-11-08", "2026-11-15", "2026-11-01"),
    ("2026-11-02T10:00", "2026-11-02T12:00", "2026-11-02T08:00"),
]


@pytest.mark.parametrize(("begin", "end", "before"), PREVIOUS)
def test_a_period_is_compared_with_the_one_before(begin, end, before):
    asked = span(begin, end, zone="Europe/Berlin")

    found = previous_span(span=asked)

    assert found.from_at == parse_instant(text=before, zone="Europe/Berlin")
    assert found.to_us == asked.from_us


def test_the_comparison_sums_the_period_before(ledger):
    ledger.project("a", of="dev")
    ledger.hold("a", "1", utc(2026, 10, 5), utc(2026, 10, 6))
    ledger.hold("a", "1", utc(2026, 11, 5), utc(2026, 11, 7))
    request = ReportRequest(span=span("2026-11-01", "2026-12-01"), bucket=Bucket.DAY)

    made = make_previous(visible=WHOLE_CLUSTER, request=request, now=NOW)

    assert hours(made) == {"a": "24.000"}
