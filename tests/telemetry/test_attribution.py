"""B21 and B22: whose load is it, and what if nobody can tell?"""

from __future__ import annotations

import pytest

from scheduler.telemetry.attribution import (
    DeviceReading,
    Sharer,
    memory_mib,
    utilization_permille,
)

TRAINING = Sharer(pids=frozenset({10, 11}), request_mgpu=300)
WORKSPACE = Sharer(pids=frozenset({20}), request_mgpu=200)


def loads(device: DeviceReading) -> tuple[int | None, int | None]:
    return (
        utilization_permille(device=device, sharer=TRAINING, sharer_count=2),
        utilization_permille(device=device, sharer=WORKSPACE, sharer_count=2),
    )


@pytest.mark.parametrize(
    ("reading", "training", "workspace"),
    [
        # given that a card with two sharers says ...
        pytest.param(
            DeviceReading(utilization_permille=1000, by_pid_permille={10: 150, 11: 150}),
            1000,
            0,
            id="30 % by the training's processes: all of its slice, and the workspace is idle",
        ),
        pytest.param(
            DeviceReading(utilization_permille=1000, by_pid_permille={10: 900, 99: 100}),
            1000,
            0,
            id="90 % by the training: never above its slice; a stranger's load is nobody's",
        ),
        pytest.param(
            DeviceReading(utilization_permille=1000), None, None, id="100 % and no more: who knows"
        ),
        pytest.param(DeviceReading(utilization_permille=0), 0, 0, id="0 %: neither"),
        pytest.param(DeviceReading(), None, None, id="nothing: unknown, not zero"),
    ],
)
def test_each_sharer_gets_its_own(reading, training, workspace):
    assert loads(reading) == (training, workspace)


def test_the_cards_figure_belongs_to_the_one_who_holds_it_alone():
    device = DeviceReading(utilization_permille=150)
    assert utilization_permille(device=device, sharer=TRAINING, sharer_count=1) == 500


def test_a_little_is_not_nothing():
    device = DeviceReading(by_pid_permille={10: 1})
    whole = Sharer(pids=frozenset({10}), request_mgpu=1000)
    assert utilization_permille(device=device, sharer=whole, sharer_count=1) == 1


@pytest.mark.parametrize(
    ("by_pid", "expected"),
    [({10: 900, 11: 100, 20: 50}, 1000), ({}, 0), ({10: 900, 11: None}, None)],
)
def test_memory_is_the_sum_of_what_its_processes_hold(by_pid, expected):
    assert memory_mib(device=DeviceReading(memory_mib_by_pid=by_pid), sharer=TRAINING) == expected
