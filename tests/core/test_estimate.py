"""A range for a start: what the simulation comes to where ends are known, and nothing where they are not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.estimate import Ends, Place, find_place, find_range, find_start
from scheduler.core.snapshot import (
    Department,
    Device,
    KeptBack,
    Node,
    Placement,
    Policy,
    Project,
    QueueQuota,
    Replica,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.vocabulary import Kind, Reason

S = 1_000_000
NOW = 1_000 * S


def work(number, *, project=1, device=None, priority=40, at=0):
    running = () if device is None else (Placement(node="n", devices=(device,)),)
    return Workload(
        id=number,
        name=f"w{number}",
        project_id=project,
        kind=Kind.TRAINING,
        priority=priority,
        preemptible=True,
        request=Request(devices=1, request_mgpu=1000),
        submitted_at_us=at,
        replicas=tuple(Replica(id=100 + number, placement=each) for each in running),
        running_since_us=0 if running else None,
    )


def paused_for(workload, *, until):
    return replace(workload, kept_back=KeptBack(until_us=until, reason=Reason.STARTS_PAUSED))


def pool(*workloads, devices=2):
    quota = QueueQuota(quota_mgpu=devices * 1000)
    return Snapshot(
        nodes=(Node(name="n", devices=tuple(Device(index=n) for n in range(devices))),),
        departments=(Department(id=1, name="d", quota=quota),),
        projects=(
            Project(id=1, name="p", department_id=1, quota=quota),
            Project(id=2, name="q", department_id=1, quota=quota),
        ),
        workloads=workloads,
    )


def estimate(snapshot, workload_id, ends):
    return find_range(
        snapshot=snapshot, policy=Policy(), now_us=NOW, workload_id=workload_id, ends=ends
    )


def known(seconds):
    return Ends(soonest_us=seconds * S, latest_us=seconds * S)


def test_it_starts_when_the_first_that_runs_has_ended():
    # Given two cards that are held for 30 and for 60 seconds more, and one that waits
    snapshot = pool(work(1, device=0), work(2, device=1), work(3, at=5))
    found = estimate(snapshot, 3, {1: known(30), 2: known(60), 3: known(10)})
    # Then it starts when the first has ended
    assert (found.soonest_us, found.latest_us) == (NOW + 30 * S, NOW + 30 * S)


def test_what_waits_before_it_takes_its_turn_first():
    snapshot = pool(work(1, device=0), work(2, at=5), work(3, at=6), devices=1)
    found = estimate(snapshot, 3, {1: known(30), 2: known(20), 3: known(10)})
    assert found.soonest_us == NOW + 50 * S


def test_early_and_late_ends_give_a_range():
    snapshot = pool(work(1, device=0), work(2, at=5), devices=1)
    ends = {1: Ends(soonest_us=10 * S, latest_us=90 * S), 2: known(10)}
    found = estimate(snapshot, 2, ends)
    assert (found.soonest_us, found.latest_us) == (NOW + 10 * S, NOW + 90 * S)


def test_where_nothing_ends_nothing_is_said():
    snapshot = pool(work(1, device=0), work(2, at=5), devices=1)
    assert estimate(snapshot, 2, {1: Ends(soonest_us=None, latest_us=None)}) is None
    assert estimate(snapshot, 2, {1: Ends(soonest_us=5 * S, latest_us=None)}) is None


def test_its_place_goes_by_priority_and_then_by_age():
    # Given three that wait in a project, and one of another project of the department that came first
    snapshot = pool(
        work(1, device=0),
        work(2, at=9, priority=50),
        work(3, at=5),
        work(4, at=6),
        work(5, project=2, at=1),
        devices=1,
    )
    assert find_place(snapshot, 4) == Place(position=3, waiting=3, ahead_in_department=1)
    assert find_place(snapshot, 2).position == 1
    assert find_place(snapshot, 1) is None


def test_a_service_that_runs_on_holds_its_card_and_a_start_under_a_pause_comes_with_its_end():
    # Given a service that has no end on one card, a training that ends in 30 s on the other
    service = replace(
        work(1, device=0, priority=150), kind=Kind.INFERENCE, preemptible=False, name="chat"
    )
    ends = {1: Ends(soonest_us=None, latest_us=None), 2: known(30), 3: known(10)}
    snapshot = pool(service, work(2, device=1), work(3, at=5))
    # Then what waits starts on the card that comes free
    assert estimate(snapshot, 3, ends).latest_us == NOW + 30 * S
    # When starts are paused for 50 s, then it starts as soon as they are not
    paused = replace(
        snapshot,
        workloads=(*snapshot.workloads[:2], paused_for(snapshot.workloads[2], until=NOW + 50 * S)),
    )
    found = estimate(paused, 3, ends)
    assert (found.soonest_us, found.latest_us) == (NOW + 50 * S, NOW + 50 * S)
    # And where only services hold the cards, nothing is said
    alone = pool(service, work(3, at=5), devices=1)
    assert estimate(alone, 3, {1: ends[1], 3: known(10)}) is None


@given(
    running=st.lists(st.integers(1, 500), min_size=1, max_size=3),
    waiting=st.lists(st.integers(1, 500), min_size=1, max_size=4),
    spread=st.integers(0, 50),
)
def test_the_range_holds_the_simulated_start_where_ends_are_known(running, waiting, spread):
    # Given a pool whose ends are known, or known within a spread
    held = [work(n + 1, device=n) for n in range(len(running))]
    line = [work(100 + n, at=n + 1) for n in range(len(waiting))]
    snapshot = pool(*held, *line, devices=len(running))
    true = {
        each.id: seconds * S
        for each, seconds in zip((*held, *line), (*running, *waiting), strict=True)
    }
    exact = {key: Ends(soonest_us=us, latest_us=us) for key, us in true.items()}
    target = line[-1].id
    start_us = find_start(
        snapshot=snapshot, policy=Policy(), now_us=NOW, workload_id=target, lefts=true
    )
    # Then the range of exact ends is that start, and on one card a range of inexact ones holds it
    found = estimate(snapshot, target, exact)
    assert found.soonest_us == found.latest_us == start_us
    if len(running) == 1:
        wide = {
            key: Ends(soonest_us=max(0, us - spread * S), latest_us=us + spread * S)
            for key, us in true.items()
        }
        around = estimate(snapshot, target, wide)
        assert around.soonest_us <= start_us <= around.latest_us
