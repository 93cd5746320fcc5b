"""What work prints of its progress comes into the tables once, thinned, and outlives its end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.operations import series
from scheduler.queries import progress as queries
from scheduler.tick import progress
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def running(ticker):
    place = places.article()
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    return place, ticker.key(place.workloads["train"])


def test_reports_are_taken_once_and_give_rate_and_time_left(ticker):
    # Given a training that reports each ten seconds, ten steps further
    place, key = running(ticker)
    for step in range(10, 60, 10):
        ticker.engine.report_progress(key, step=step, total=100, metrics=(("loss", 1 / step),))
        ticker.tick(seconds=10)
    # When another process of the tick goes on, which knows nothing of what was taken
    progress._taken.clear()
    ticker.tick(seconds=10)
    # Then each report is there once
    workload = place.fresh("train")
    found = queries.progress_of(workload)
    assert (found.step, found.total, found.percent) == (50, 100, 50)
    steps, loss = found.series
    assert [value for _at, value in steps.points] == [10, 20, 30, 40, 50]
    assert (loss.name, loss.last) == ("loss", 1 / 50)
    # And it goes on at its own rate
    assert round(found.steps_a_second, 2) == 1.0
    assert found.left_s == 50


def test_the_last_words_of_a_run_are_kept_and_the_gap_after_it_is_known(ticker):
    # Given a training whose run fails right after a report, within the pause between two looks
    place, key = running(ticker)
    ticker.engine.report_progress(key, step=1)
    ticker.tick(seconds=2)
    ticker.engine.report_progress(key, step=2)
    ticker.engine.kill(key)
    # When it has ended, and runs again
    ticker.settle(ticks=12, seconds=5)
    # Then the report is there, the two runs are known, and nothing is said of a rate yet
    found = queries.progress_of(place.fresh("train"))
    assert [value for _at, value in found.series[0].points] == [1, 2]
    first, second = found.runs
    assert first.until < second.since
    assert second.until is None
    assert found.steps_a_second is None


def test_the_place_to_report_to_is_in_the_environment(ticker, settings):
    settings.REPLICA_URL = "http://127.0.0.1:8000"
    place, key = running(ticker)
    spec = ticker.engine._replicas[key].spec
    workload_id = place.workloads["train"].pk
    assert spec.progress_url == f"http://127.0.0.1:8000/api/v1/workloads/{workload_id}/progress"
    assert spec.progress_token.startswith(f"tgr_{key}_")


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(-10, 10)), max_size=3000),
    st.integers(1, 400),
)
def test_a_series_is_bounded_and_keeps_its_peaks_and_its_end(points, at_once):
    kept, width_ms = [], 0
    points = sorted(points, key=lambda point: point[0])
    for begin in range(0, len(points), at_once):
        kept, width_ms = series.add(kept, width_ms=width_ms, new=points[begin : begin + at_once])
    assert len(kept) <= series.MOST_POINTS
    assert {point[0] for point in kept} <= {point[0] for point in points}
    if points:
        values = [value for _at, value in points]
        assert {min(values), max(values)} <= {value for _at, value in kept}
        assert kept[-1][0] == points[-1][0]


def test_a_rate_needs_a_run_that_is_on(ticker):
    place, key = running(ticker)
    for step in (1, 2, 3):
        ticker.engine.report_progress(key, step=step, total=3)
        ticker.tick(seconds=3)
    row = place.fresh("train")
    assert queries.progress_of(row).left_s == 0
    row.phase, row.ended_at = "completed", ticker.clock() + timedelta(seconds=1)
    assert queries.progress_of(row).steps_a_second is None
