"""A workload that was asked to leave: it goes once, and nothing of it is started meanwhile."""

from __future__ import annotations

import pytest

from scheduler import models
from scheduler.core.vocabulary import Kind
from scheduler.operations import workloads
from scheduler.operations.authority import SYSTEM
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)

ASKS = [workloads.stop_workload, workloads.delete_workload]


@pytest.mark.parametrize("ask", ASKS)
def test_a_service_that_is_slow_to_stop_is_not_started_again_beside_itself(ticker, ask):
    # Given a service that needs some seconds to end, alone on a card with room for more of it
    place = places.article()
    place.submit(
        "answers",
        of="prod-inference",
        gpu="0.12",
        kind=Kind.INFERENCE,
        command=["fake", "ignores-term"],
        grace_s=5,
    )
    ticker.settle()
    assert place.phase("answers") == "running"
    # When it is asked to leave
    ask(workload_id=place.workloads["answers"].pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle(ticks=9)
    # Then its one replica has ended, and no other was ever placed
    assert place.phase("answers") == "stopped"
    assert models.Replica.objects.filter(workload=place.workloads["answers"]).count() == 1
    codes = list(models.WorkloadEvent.objects.order_by("id").values_list("code", flat=True))
    assert codes.count("placed") == 1
    assert "waits" not in codes
