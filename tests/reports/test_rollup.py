"""Rolled-up hours: the same figures to the last digit, whatever is rolled up, late, or made again."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.consumption import ReportRequest, Segment, make_report
from reports.periods import Bucket, make_span, parse_instant
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import DAY_US, HOUR_US, NAMES, Figures, sum_figures
from scheduler.core.usage_cells import add_up, decode, encode
from scheduler.operations import usage_rollup
from scheduler.queries import usage_blocks
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 12, 3, 13, 20)
BEGIN = utc(2026, 11, 20, 5, 7, 11)


@pytest.fixture
def ledger(db):
    """Two weeks of four projects in two departments, with guarantees, idleness and prices."""
    rng = random.Random(8)
    made = Ledger(price="74")
    made.department("dev", quota="0.70", since=BEGIN).department("ops", quota="0.50", since=BEGIN)
    made.price("80.5", since=utc(2026, 11, 24, 11, 11))
    for name, department in (("a", "dev"), ("b", "dev"), ("c", "ops"), ("d", "ops")):
        made.project(name, of=department, quota="0.30", since=BEGIN)
        at = BEGIN
        while at < NOW:
            until = at + timedelta(seconds=rng.randrange(60, 300_000))
            held = made.hold(
                name,
                rng.choice(["0.09", "0.25", "0.50"]),
                at,
                until if until < NOW else None,
                cpu_milli=2500,
                memory_mib=8192,
            )
            seen = min(until, NOW)
            made.seen(held, at, at + (seen - at) / 3, idle=rng.random() < 0.5)
            at += timedelta(seconds=rng.randrange(3000, 400_000))
    made.quota("a", "0.10", since=utc(2026, 11, 25, 3, 33))
    return made


KINDS = [
    (Bucket.WHOLE, Segment.CLUSTER),
    (Bucket.HOUR, Segment.PROJECT),
    (Bucket.DAY, Segment.DEPARTMENT),
    (Bucket.DAY, Segment.PROJECT),
    (Bucket.WEEK, Segment.PROJECT),
    (Bucket.MONTH, Segment.DEPARTMENT),
]


def everything(zone="Asia/Taipei", visible=WHOLE_CLUSTER, begin="2026-11-21T07:13"):
    """Figures of every kind of report."""
    found = {}
    span = make_span(
        from_at=parse_instant(text=begin, zone=zone),
        to_at=parse_instant(text="2026-12-03T21:20", zone=zone),
        zone=zone,
        now=NOW,
    )
    for bucket, segment in KINDS:
        request = ReportRequest(span=span, segment=segment, bucket=bucket)
        made = make_report(visible=visible, request=request, now=NOW)
        found[(bucket, segment)] = [
            (row.unit.id, row.slot.from_us, row.figures, row.beyond) for row in made.rows
        ]
    return found


def roll_all(most_days=31):
    hours = 0
    while more := usage_rollup.roll_up(now=NOW, most_days=most_days):
        hours += more
    return hours


@pytest.mark.parametrize("zone", ["UTC", "Asia/Taipei", "Asia/Kathmandu", "America/New_York"])
def test_a_report_is_the_same_before_and_after_hours_are_rolled_up(ledger, zone):
    before = everything(zone)

    roll_all()

    assert usage_blocks.rolled_until() == to_us(utc(2026, 12, 3, 13))
    assert everything(zone) == before
    assert list(usage_rollup.differences(now_us=to_us(NOW))) == []


def test_hours_rolled_up_one_by_one_are_those_rolled_up_at_once(ledger):
    roll_all()
    at_once = everything()
    usage_rollup.forget_all()
    now = utc(2026, 11, 24)
    while now < NOW:
        usage_rollup.roll_up(now=now)
        now += timedelta(hours=7)

    roll_all(most_days=1)

    assert everything() == at_once
    assert list(usage_rollup.differences(now_us=to_us(NOW))) == []


def test_what_is_closed_late_takes_its_hours_back(ledger):
    late = ledger.hold("a", "0.09", utc(2026, 11, 28), None)
    roll_all()
    late.to_us = to_us(utc(2026, 12, 1, 9, 30))
    late.save()
    assert list(usage_rollup.differences(now_us=to_us(NOW))) != []

    usage_rollup.forget_after(at_us=late.to_us)

    assert usage_blocks.rolled_until() == to_us(utc(2026, 12, 1, 9))
    assert list(usage_rollup.differences(now_us=to_us(NOW))) == []
    roll_all()
    assert list(usage_rollup.differences(now_us=to_us(NOW))) == []


def test_blocks_made_with_other_prices_are_not_used_and_made_again(ledger):
    roll_all()
    ledger.price("10", since=utc(2026, 11, 22))

    assert usage_blocks.rolled_until() is None
    before = everything()
    roll_all()

    assert usage_blocks.rolled_until() is not None
    assert everything() == before


def test_a_block_that_was_tampered_with_is_found(ledger):
    roll_all()
    blocks = models.UsageBlock.objects.filter(level="day", project__isnull=False)
    block = blocks.order_by("start_us", "id")[4]
    rows = decode(cells=bytes(block.cells), count=24)
    block.cells = encode(rows=[*rows[:23], Figures(allocated=1)])
    block.save()

    assert len(list(usage_rollup.differences(now_us=to_us(NOW)))) == 1


def test_scopes_hold_for_rolled_up_hours_too(ledger):
    projects, departments = ledger.projects, ledger.departments
    scopes = [
        Visibility(project_ids=frozenset({projects["a"].pk})),
        Visibility(department_ids=frozenset({departments["ops"].pk})),
        Visibility(),
    ]
    before = [everything(visible=scope) for scope in scopes]

    roll_all()

    assert [everything(visible=scope) for scope in scopes] == before


def test_an_hour_is_rolled_up_ten_minutes_after_its_end(db):
    Ledger().department("dev").project("a", of="dev", quota="1", since=utc(2026, 11, 20, 5, 7))

    assert usage_rollup.roll_up(now=utc(2026, 11, 20, 7, 9)) == 1
    assert usage_rollup.roll_up(now=utc(2026, 11, 20, 7, 9, 59)) == 0
    assert usage_rollup.roll_up(now=utc(2026, 11, 20, 7, 10)) == 1
    assert usage_blocks.rolled_until() == to_us(utc(2026, 11, 20, 7))


# --- Cells ----------------------------------------------------------------------------------------

amounts = st.integers(min_value=0, max_value=2**62)
wide = st.integers(min_value=0, max_value=2**100)
rows = st.lists(
    st.builds(
        Figures,
        allocated=amounts,
        deserved=amounts,
        idle=amounts,
        memory=wide,
        cost=wide,
        idle_cost=wide,
    ),
    min_size=24,
    max_size=24,
)


@given(rows=rows)
def test_cells_keep_every_digit(rows):
    assert decode(cells=encode(rows=rows), count=24) == rows


@given(rows=rows, first=st.integers(0, 24), length=st.integers(0, 24))
def test_sums_of_cells_are_sums_of_rows(rows, first, length):
    ranges = [(first, min(24, first + length)), (0, 24)]

    found = add_up(cells=encode(rows=rows), count=24, ranges=ranges)

    assert found == [list(sum_figures(rows=rows[a:b]).values()) for a, b in ranges]
    assert len(found[0]) == len(NAMES)


cuts = st.lists(
    st.integers(min_value=0, max_value=90 * DAY_US), min_size=2, max_size=8, unique=True
).map(sorted)


@given(cuts=cuts, until=st.one_of(st.none(), st.integers(0, 90 * 24).map(HOUR_US.__mul__)))
def test_a_division_covers_each_slot_once(cuts, until):
    division = usage_blocks.divide(cuts=cuts, until_us=until)

    covered = dict.fromkeys(range(len(cuts) - 1), 0)
    for slot, begin, end in division.stretches:
        assert begin % HOUR_US == end % HOUR_US == 0
        assert cuts[slot] <= begin < end <= min(cuts[slot + 1], until)
        covered[slot] += end - begin
    for left in division.leftovers:
        assert left.cuts == sorted(set(left.cuts))
        for slot, begin, end in zip(left.slots, left.cuts, left.cuts[1:], strict=False):
            if slot is not None:
                covered[slot] += end - begin
    assert covered == {slot: cuts[slot + 1] - cuts[slot] for slot in covered}
