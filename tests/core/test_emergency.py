"""Emergency controls in the core: what may not start, and that nobody is interrupted under a freeze."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import decide, settle
from scheduler.core.emergency import Control, ControlKind, Subject, frozen_until_us, kept_back
from scheduler.core.kept import Kept
from scheduler.core.plan import Evict, Start
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
from scheduler.core.vocabulary import Kind, Level, Phase, Reason, Rule
from tests.core.clusters import NOW_US, clusters

LATER_US = NOW_US + 3_600_000_000
PAUSED = KeptBack(until_us=LATER_US, reason=Reason.STARTS_PAUSED)


def workload(number, **fields):
    values = {
        "id": number, "name": f"w{number}", "project_id": 1, "kind": Kind.TRAINING, "priority": 40,
        "preemptible": True, "request": Request(devices=1, request_mgpu=1000), "submitted_at_us": number,
    }  # fmt: skip
    return Workload(**{**values, **fields})


def running(number, device, **fields):
    replica = Replica(id=100 + number, placement=Placement(node="n", devices=(device,)))
    return workload(number, replicas=(replica,), running_since_us=0, **fields)


def facts(*workloads, devices=2):
    """One node; the project of id 1 is guaranteed all of it, that of id 2 only borrows."""
    return Snapshot(
        nodes=(Node(name="n", devices=tuple(Device(index=i) for i in range(devices))),),
        departments=(Department(id=1, name="d", quota=QueueQuota(quota_mgpu=devices * 1000)),),
        projects=(
            Project(id=1, name="p", department_id=1, quota=QueueQuota(quota_mgpu=devices * 1000)),
            Project(id=2, name="q", department_id=1, quota=QueueQuota()),
        ),
        workloads=workloads,
    )


def started(plan):
    return {each.workload_id for each in plan.decisions if isinstance(each, Start)}


def evictions(plan):
    return [
        each for each in plan.decisions if isinstance(each, Evict) and each.rule is not Rule.LOST
    ]


# --- Which control is about which workload --------------------------------------------------------


def subject(**fields):
    values = {
        "workload_id": 7, "project_id": 2, "department_id": 3,
        "kind": Kind.TRAINING, "phase": Phase.PENDING,
    }  # fmt: skip
    return Subject(**{**values, **fields})


def pause(**scope):
    return Control(kind=ControlKind.PAUSE, until_us=LATER_US, **scope)


def test_a_pause_is_about_all_of_its_scope_and_nothing_else():
    for scope, level in (
        ({}, None), ({"department_id": 3}, Level.DEPARTMENT), ({"project_id": 2}, Level.PROJECT),
    ):  # fmt: skip
        found = kept_back([pause(**scope)], subject())
        assert (found.reason, found.level) == (Reason.STARTS_PAUSED, level)
    for scope in ({"department_id": 4}, {"project_id": 5}):
        assert kept_back([pause(**scope)], subject()) is None


def test_a_service_in_use_is_touched_by_no_control():
    hold = Control(kind=ControlKind.HOLD, until_us=LATER_US, workload_id=7, project_id=2)
    for phase in (Phase.STARTING, Phase.RUNNING, Phase.DEGRADED):
        assert kept_back([pause(), hold], subject(kind=Kind.INFERENCE, phase=phase)) is None
    # One that was not started yet is new work like any other
    assert kept_back([pause()], subject(kind=Kind.INFERENCE)) is not None
    # And running work is kept back from starting again, not from running
    assert kept_back([hold], subject(phase=Phase.RUNNING)).reason is Reason.HELD_BACK


def test_of_several_the_one_counts_that_ends_last():
    sooner = Control(kind=ControlKind.HOLD, until_us=NOW_US + 1, workload_id=7, project_id=2)
    assert kept_back([sooner, pause()], subject()).reason is Reason.STARTS_PAUSED
    assert frozen_until_us([sooner, pause()]) is None
    freeze = Control(kind=ControlKind.FREEZE, until_us=LATER_US)
    assert frozen_until_us([pause(), freeze]) == LATER_US
    assert kept_back([freeze], subject()) is None


# --- What the core does with it -------------------------------------------------------------------


def test_what_is_kept_back_does_not_start_says_why_and_starts_when_its_time_is_over():
    # Given two free devices and two that wait, one of them kept back
    snapshot = facts(workload(1, kept_back=PAUSED), workload(2))
    plan = decide(snapshot=snapshot, policy=Policy(), now_us=NOW_US)
    # Then only the other starts, and the reason names the instant
    assert started(plan) == {2}
    [hold] = plan.holds
    assert (hold.workload_id, hold.reason, hold.next_try_at_us) == (
        1, Reason.STARTS_PAUSED, LATER_US,
    )  # fmt: skip
    # When the instant has come, then it starts by itself
    plan = decide(snapshot=snapshot, policy=Policy(), now_us=LATER_US)
    assert started(plan) == {1, 2}


def test_nobody_is_interrupted_for_what_is_kept_back():
    # Given a guarantee that is asked for by kept-back work, and a borrower that holds the devices
    snapshot = facts(
        workload(1, kept_back=PAUSED), running(2, 0, project_id=2), running(3, 1, project_id=2)
    )
    plan = decide(snapshot=snapshot, policy=Policy(), now_us=NOW_US)
    assert plan.decisions == ()


def test_a_victim_that_is_kept_back_does_not_start_again_in_the_same_cycle():
    # Given a borrower whose starts are paused, and room elsewhere that it could take at once
    snapshot = facts(
        workload(1, request=Request(devices=2, request_mgpu=1000)),
        running(2, 0, project_id=2, kept_back=PAUSED),
    )
    plan = settle(snapshot=snapshot, policy=Policy(), now_us=NOW_US)
    assert 1 in started(plan) or evictions(plan)
    assert 2 not in started(plan)
    assert [hold.reason for hold in plan.holds] == [Reason.STARTS_PAUSED]


def test_a_further_replica_of_a_training_is_a_start():
    snapshot = facts(running(1, 0, max_replicas=2, kept_back=PAUSED))
    assert decide(snapshot=snapshot, policy=Policy(), now_us=NOW_US).decisions == ()


def test_places_kept_for_what_is_kept_back_are_given_up():
    nominee = workload(1, nominated=(Placement(node="n", devices=(0,)),), kept_back=PAUSED)
    plan = decide(snapshot=facts(nominee, workload(2)), policy=Policy(), now_us=NOW_US)
    assert plan.dropped_nominations == (1,)
    assert started(plan) == {2}


def test_under_a_freeze_a_guarantee_waits_and_is_met_after_it():
    snapshot = facts(workload(1), running(2, 0, project_id=2), running(3, 1, project_id=2))
    frozen = Policy(frozen_until_us=LATER_US)
    plan = decide(snapshot=snapshot, policy=frozen, now_us=NOW_US)
    assert plan.decisions == ()
    assert [hold.workload_id for hold in plan.holds] == [1]
    assert [
        each.rule for each in evictions(decide(snapshot=snapshot, policy=frozen, now_us=LATER_US))
    ] == [Rule.RECLAIM]


def test_under_a_freeze_what_fits_starts_as_always():
    frozen = Policy(frozen_until_us=LATER_US)
    plan = decide(snapshot=facts(workload(1), running(2, 0)), policy=frozen, now_us=NOW_US)
    assert started(plan) == {1}


@given(clusters())
def test_with_a_freeze_nobody_is_interrupted(cluster):
    snapshot, policy = cluster
    policy = replace(policy, frozen_until_us=NOW_US + 1)
    for way in (decide, settle):
        assert evictions(way(snapshot=snapshot, policy=policy, now_us=NOW_US)) == []


@given(clusters(), st.data())
def test_nothing_that_is_kept_back_starts_and_each_says_why(cluster, data):
    snapshot, policy = cluster
    ids = [each.id for each in snapshot.workloads]
    chosen = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    paused = replace(
        snapshot,
        workloads=tuple(
            replace(each, kept_back=PAUSED) if each.id in chosen else each
            for each in snapshot.workloads
        ),
    )
    for way in (decide, settle):
        plan = way(snapshot=paused, policy=policy, now_us=NOW_US)
        assert not started(plan) & chosen
        served = {each.served_id for each in evictions(plan)}
        assert not served & chosen
        waiting = [hold for hold in plan.holds if hold.workload_id in chosen]
        assert {hold.reason for hold in waiting} <= {Reason.STARTS_PAUSED}


@given(clusters(), st.data())
def test_state_that_is_kept_follows_controls_that_come_and_go(cluster, data):
    snapshot, policy = cluster
    kept = Kept(snapshot, policy=policy, now_us=NOW_US)
    for _round in range(3):
        flags = data.draw(
            st.lists(
                st.booleans(), min_size=len(snapshot.workloads), max_size=len(snapshot.workloads)
            )
        )
        snapshot = replace(
            snapshot,
            workloads=tuple(
                replace(each, kept_back=PAUSED if flag else None)
                for each, flag in zip(snapshot.workloads, flags, strict=True)
            ),
        )
        kept.follow(snapshot, now_us=NOW_US)
        assert kept.decide() == decide(snapshot=snapshot, policy=policy, now_us=NOW_US)
