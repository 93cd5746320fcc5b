"""Estimates of starts on the tables: past runs, time limits, places, and the record of how good they were."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler import models
from scheduler.queries import estimates
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from scheduler.tick import estimates as keeping
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def read(ticker, workload, visible=WHOLE_CLUSTER):
    return estimates.read_estimate(visible=visible, workload_id=workload.pk, now=ticker.clock())


def past_runs(ticker, place, count, seconds=60):
    """Finished trainings of a project that ran so long each."""
    running = models.Replica.objects.filter(phase="running").first()
    for number in range(count):
        began = ticker.clock() - timedelta(seconds=seconds + number)
        done = place.submit(f"past-{number}", of="p", gpu="1", command=["fake"])
        models.Workload.objects.filter(pk=done.pk).update(
            phase="completed", ended_at=ticker.clock()
        )
        models.Replica.objects.create(
            workload=done,
            node=running.node,
            phase="ended",
            booked_at=began,
            running_at=began,
            ended_at=began + timedelta(seconds=seconds),
        )


@pytest.fixture
def place(ticker):
    place = places.card().department("d", quota="1").project("p", of="d", quota="1")
    place.submit("runs", of="p", gpu="1", command=["fake"])
    ticker.settle()
    place.submit("waits", of="p", gpu="1", command=["fake"], at=ticker.clock())
    ticker.settle()
    assert place.phases() == {"runs": "running", "waits": "pending"}
    return place


def test_without_past_runs_there_is_no_honest_range(ticker, place):
    past_runs(ticker, place, 9)
    found = read(ticker, place.workloads["waits"])
    assert (found.soonest, found.why_not, found.samples) == (None, "few_samples", 9)
    assert (found.position, found.waiting) == (1, 1)


def test_past_runs_give_a_range_and_the_start_is_held_against_it(ticker, place):
    # Given ten past runs of a minute
    past_runs(ticker, place, 10)
    found = read(ticker, place.workloads["waits"])
    assert found.soonest is not None
    assert found.soonest <= found.latest <= ticker.clock() + timedelta(seconds=61)
    # When the range is kept once for this wait, and a start comes that it holds
    ticker.engine.advance(25)
    assert keeping.keep(now=ticker.clock()) == 1
    assert keeping.keep(now=ticker.clock()) == 0
    kept = models.StartEstimate.objects.get(workload=place.workloads["waits"])
    models.Replica.objects.create(
        workload=place.workloads["waits"],
        node=models.Node.objects.get(),
        phase="ended",
        booked_at=kept.latest,
        ended_at=kept.latest,
    )
    models.Workload.objects.filter(name="waits").update(phase="running")
    assert keeping.keep(now=ticker.clock()) == 1
    # Then who waits again is told how good the ranges were
    models.Workload.objects.filter(name="waits").update(phase="pending")
    found = read(ticker, place.workloads["waits"])
    assert (found.judged, found.hits) == (1, 1)


def test_a_time_limit_is_a_known_end(ticker, place):
    models.Workload.objects.filter(name="runs").update(runtime_limit_s=300)
    found = read(ticker, place.workloads["waits"])
    assert found.why_not == ""
    assert found.latest - ticker.clock() <= timedelta(seconds=300)


def test_a_reader_of_the_project_alone_is_told_nothing_of_the_department(ticker, place):
    only = Visibility(project_ids=frozenset({place.projects["p"].pk}))
    assert read(ticker, place.workloads["waits"], only).ahead_in_department is None
    assert read(ticker, place.workloads["waits"]).ahead_in_department == 0
    assert read(ticker, place.workloads["waits"], Visibility()) is None
