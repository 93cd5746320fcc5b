"""When a request was entitled, and how long it waited: against a count of every instant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.promise import Asked, Kept, Room, entitled_spans, judge, measure, within

END = 40
steps = st.lists(
    st.tuples(st.integers(0, END), st.integers(0, END), st.integers(0, 300)).map(
        lambda t: (min(t[:2]), max(t[:2]), t[2])
    ),
    max_size=6,
)


def amount(found, at):
    return sum(mgpu for from_us, to_us, mgpu in found if from_us <= at < to_us)


@given(held=steps, quota=steps, mgpu=st.integers(1, 400), asked=st.integers(0, END - 1))
def test_a_request_is_entitled_at_exactly_the_instants_at_which_it_fits(held, quota, mgpu, asked):
    request = Asked(mgpu=mgpu, asked_us=asked, until_us=END, running_us=END)
    spans = entitled_spans(request=request, rooms=[Room(held=held, guaranteed=quota)])
    fits = [at for at in range(asked, END) if amount(quota, at) - amount(held, at) >= mgpu]
    assert [at for from_us, to_us in spans for at in range(from_us, to_us)] == fits
    # And the wait is the unbroken stretch before it ran
    kept = judge(requests=[request], rooms=[Room(held=held, guaranteed=quota)], period=(0, END + 1))
    unbroken = 0
    while END - 1 - unbroken in fits:
        unbroken += 1
    assert kept.waits_us == ((unbroken,) if unbroken else ())
    assert kept.short_us == len(fits)


def test_both_levels_must_have_room():
    # Given a project with room all the time, whose department has room only in the middle
    project = Room(held=[], guaranteed=[(0, 100, 500)])
    department = Room(held=[(0, 30, 900), (60, 100, 900)], guaranteed=[(0, 100, 1000)])
    request = Asked(mgpu=200, asked_us=10, until_us=60, running_us=65)
    # Then it is entitled from 30, and waits until it runs
    kept = judge(requests=[request], rooms=[project, department], period=(0, 100))
    assert kept == Kept(waits_us=(35,), short_us=30)


def test_what_borrows_has_no_promise_and_what_still_waits_is_the_worst():
    room = Room(held=[], guaranteed=[(0, 100, 90)])
    borrower = Asked(mgpu=180, asked_us=0, until_us=50, running_us=51)
    quick = Asked(mgpu=90, asked_us=10, until_us=11, running_us=15)
    waiting = Asked(mgpu=90, asked_us=40, until_us=100, running_us=None, booked=False)
    kept = judge(requests=[borrower, quick, waiting], rooms=[room], period=(0, 100))
    assert (kept.waits_us, kept.open_us, kept.worst_us) == ((5,), (60,), 60)
    assert (kept.percentile(50), kept.percentile(95)) == (5, 5)


def test_percentiles_are_waits_that_there_were():
    kept = Kept(waits_us=tuple(range(1, 101)))
    assert (kept.percentile(50), kept.percentile(95), kept.worst_us) == (50, 95, 100)
    assert Kept().percentile(50) is None


@given(held=steps, quota=steps)
def test_inside_a_guarantee_is_the_lesser_of_both_at_every_instant(held, quota):
    found = within(held=held, guaranteed=quota)
    for at in range(END):
        assert amount(found, at) == min(amount(held, at), amount(quota, at))


@given(steps)
def test_overlapping_spans_count_once(found):
    spans = [(a, b) for a, b, _ in found]
    instants = {at for a, b in spans for at in range(a, b)}
    assert measure(spans=spans) == len(instants)
