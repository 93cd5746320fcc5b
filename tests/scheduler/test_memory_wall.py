"""Who takes more memory than was granted: told once, stopped by the rule, and the neighbour runs on."""

from __future__ import annotations

import pytest

from scheduler import models
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_is_told_once_with_the_figure_and_the_work_is_stopped(ticker):
    # Given two trainings that share a card
    place = places.card().department("d", quota="1").project("p", of="d", quota="1")
    greedy = place.submit("greedy", of="p", gpu="0.3", command=["fake"], max_attempts=1)
    place.submit("neighbour", of="p", gpu="0.3", command=["fake"])
    ticker.settle()
    # When the engine sees one of them with more than its slice
    ticker.engine.take_memory(ticker.key(greedy), mib=20_000)
    ticker.settle(ticks=5)
    # Then its event has the figure, once, its end has that reason, and the other one runs
    told = models.WorkloadEvent.objects.filter(workload=greedy, code="over_memory")
    assert [event.params["peak_mib"] for event in told] == [20_000]
    assert models.Replica.objects.get(workload=greedy).stop_code == "over_memory"
    assert place.phases() == {"greedy": "failed", "neighbour": "running"}
    # And the card has its room back
    assert models.Device.objects.get().allocated_mgpu == 300
