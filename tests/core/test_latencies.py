"""Latencies in classes: what a percentile says is near the truth, and parts add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import latencies

TIMES_US = st.lists(st.integers(1_000, 900_000_000), min_size=1, max_size=200)


def counted(times_us):
    return latencies.joined(*({latencies.class_of(each): 1} for each in times_us))


@given(times_us=TIMES_US, percent=st.integers(1, 100))
def test_a_percentile_is_within_its_class(times_us, percent):
    rank = max(1, -(-len(times_us) * percent // 100))
    truth_ms = sorted(times_us)[rank - 1] / 1000
    said_ms = latencies.percentile_ms(counts=counted(times_us), percent=percent)
    assert truth_ms / 1.27 - 1 <= said_ms <= truth_ms * 1.27 + 1


@given(one=TIMES_US, other=TIMES_US)
def test_parts_add_up(one, other):
    assert latencies.joined(counted(one), counted(other)) == counted(one + other)


@pytest.mark.parametrize("latency_us", [0, 10**12])
def test_the_ends_of_the_scale(latency_us):
    assert latencies.percentile_ms(counts=counted([latency_us]), percent=50) > 0


def test_nothing_is_known_of_nothing():
    assert latencies.percentile_ms(counts={}, percent=95) is None
