"""Steady work: of what is seen as it is written down, no whole row is read; of all else, every one is."""

from __future__ import annotations

import pytest

from scheduler import models
from scheduler.engines.fake import FakeEngine
from scheduler.tick import observe, steady
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def running(ticker):
    """Return the workload of one training that runs, as the tick has written it down."""
    place = places.article()
    workload = place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    assert place.phase("train") == "running"
    return workload


def parted(ticker):
    seen = observe.gather(now=ticker.clock())
    return steady.part(by_key=seen.by_key, answered=seen.answered)


def test_what_runs_as_it_is_written_down_is_steady(ticker, running):
    assert parted(ticker) == ([models.Replica.objects.get().pk], [])


def test_it_is_still_noted_that_it_was_seen(ticker, running):
    before = models.Replica.objects.get().last_seen_at
    ticker.tick(seconds=5)
    assert models.Replica.objects.get().last_seen_at > before


@pytest.mark.parametrize(
    "news",
    [
        lambda engine, key: engine.mark_checkpoint(key, step=7),
        lambda engine, key: engine.mark_resumed(key, step=7),
        FakeEngine.kill,
        FakeEngine.lose,
    ],
)
def test_whatever_the_engine_says_that_is_not_written_down_is_looked_at(ticker, running, news):
    news(ticker.engine, ticker.key(running))
    assert parted(ticker) == ([], [running.pk])


def test_a_mark_that_was_written_down_is_no_news(ticker, running):
    ticker.engine.mark_checkpoint(ticker.key(running), step=7)
    ticker.tick(seconds=1)
    assert models.Workload.objects.get().checkpoint["step"] == 7
    assert parted(ticker) == ([models.Replica.objects.get().pk], [])


@pytest.mark.parametrize("changes", [{"phase": "starting"}, {"launched_at": None}, {"pid": 7}])
def test_whatever_is_written_down_otherwise_is_looked_at(ticker, running, changes):
    models.Replica.objects.update(**changes)
    assert parted(ticker) == ([], [running.pk])


@pytest.mark.parametrize("changes", [{"phase": "starting"}, {"min_replicas": 2, "max_replicas": 2}])
def test_a_workload_that_does_not_run_whole_is_looked_at(ticker, running, changes):
    models.Workload.objects.update(**changes)
    assert parted(ticker) == ([], [running.pk])


def test_nothing_is_steady_of_an_engine_that_does_not_answer(ticker, running):
    seen = observe.gather(now=ticker.clock())
    assert steady.part(by_key=seen.by_key, answered=frozenset()) == ([], [running.pk])
