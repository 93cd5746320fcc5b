"""When a figure is an alert: after its duration, until a tenth below, never on what is not known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.alerts import Change, Rule, State, clear_below, look

MINUTE_US = 60_000_000


def walk(values, *, threshold=100, for_s=120, step_us=MINUTE_US):
    """Look once a minute; return what each look brought."""
    rule = Rule(threshold=threshold, for_s=for_s, clear_below=clear_below(threshold=threshold))
    state, found = State(), []
    for number, value in enumerate(values):
        state, change = look(rule=rule, state=state, value=value, now_us=number * step_us)
        found.append(change)
    return found, state


def changes(values, **rule):
    return [change for change in walk(values, **rule)[0] if change is not Change.NONE]


def test_it_is_raised_after_its_duration_and_not_before():
    assert walk([101, 101, 101])[0] == [Change.NONE, Change.NONE, Change.RAISED]
    assert changes([101, 101, 99, 101, 101]) == []


def test_a_figure_that_swings_around_its_threshold_is_one_alert():
    assert changes([101] * 3 + [99, 101, 95, 101, 91, 101] * 3) == [Change.RAISED]


def test_it_is_over_a_tenth_below_for_as_long():
    assert changes([101] * 3 + [89, 89, 89]) == [Change.RAISED, Change.CLEARED]
    assert changes([101] * 3 + [89, 95, 89, 89]) == [Change.RAISED]


def test_above_nothing_is_over_at_nothing():
    found, _state = walk([90, 90, 90, 0, 0, 0], threshold=0)
    assert [c for c in found if c is not Change.NONE] == [Change.RAISED, Change.CLEARED]


def test_what_is_not_known_changes_nothing_and_begins_the_clock_anew():
    assert changes([101, 101, None, 101, 101]) == []
    assert changes([101] * 3 + [None] * 9) == [Change.RAISED]


def test_the_peak_is_kept():
    assert walk([101, 101, 101, 150, 120])[1].peak == 150


@given(values=st.lists(st.none() | st.integers(0, 200), max_size=60), for_s=st.integers(0, 300))
def test_raised_and_over_take_turns(values, for_s):
    found = changes(values, for_s=for_s)
    assert found[::2] == [Change.RAISED] * len(found[::2])
    assert found[1::2] == [Change.CLEARED] * len(found[1::2])


@given(values=st.lists(st.integers(0, 100), max_size=60), for_s=st.integers(0, 300))
def test_at_the_threshold_or_below_nothing_is_ever_raised(values, for_s):
    assert changes(values, for_s=for_s) == []
