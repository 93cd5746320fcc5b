"""When workloads waited, out of what was held and what people did."""

from __future__ import annotations

import pytest

from scheduler.queries.waits import gaps

S = 1_000_000


@pytest.mark.parametrize(
    ("alive", "held", "waited"),
    [
        # Never held: it waits since its submission
        ([(0, None)], [], [(0, None)]),
        # Two replicas that overlap: it waits before the first and after the last
        ([(0, None)], [(10 * S, 30 * S), (20 * S, 50 * S)], [(0, 10 * S), (50 * S, None)]),
        # Running still: no wait is open
        ([(0, None)], [(10 * S, None)], [(0, 10 * S)]),
        # Ended a moment after its devices were free: that moment is no waiting
        ([(0, 31 * S)], [(10 * S, 30 * S)], [(0, 10 * S)]),
        # Stopped while it waited
        ([(0, 60 * S)], [], [(0, 60 * S)]),
        # Ended and started again: nothing between, and a wait after
        ([(0, 20 * S), (90 * S, None)], [(0, 20 * S)], [(90 * S, None)]),
    ],
)
def test_waiting_is_being_alive_and_holding_nothing(alive, held, waited):
    assert gaps(alive, held) == waited
