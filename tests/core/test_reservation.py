"""Reservation against starvation: a node is kept for who waited too long, lacking only devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from scheduler.core.cycle import settle
from scheduler.core.plan import Start
from scheduler.core.vocabulary import Reason
from tests.builders import SECOND_US, Cluster
from tests.core.clusters import NOW_US, clusters

AFTER_S = 600


def two_gpus_of_which_one_comes_free(*, waited_s):
    """A wants both GPUs of the node and has waited; B's two workspaces hold them; one ends."""
    given = (
        Cluster(gpus="2", starvation_after_s=AFTER_S)
        .department("d", quota="6")
        .project("a", of="d", quota="2")
        .project("b", of="d", quota="4")
        .workspace("b-0", of="b", gpu="1", on=0)
        .workspace("b-1", of="b", gpu="1", on=1)
        .workspace("a-both", of="a", gpu="1", devices=2)
    )
    outcome = given.settle()
    assert outcome.plan.starving_ids == (given.workloads["a-both"].id,)
    given._change("a-both", starving_since_us=given.now_us)
    given.wait(waited_s)
    return given.finish("b-0")


def test_what_comes_free_is_kept_from_work_that_could_not_be_taken_back():
    # Given A's request for two GPUs, which has waited for ten minutes, and one of them free
    given = two_gpus_of_which_one_comes_free(waited_s=AFTER_S)
    # When B asks for one GPU with work that may not be interrupted
    outcome = given.workspace("b-2", of="b", gpu="1").settle()
    # Then it waits, and is told for whom the GPU is kept
    assert outcome.started == []
    assert dict(outcome.plan.reservations) == {given.workloads["a-both"].id: "node-0"}
    reason = outcome.reason("b-2")
    assert (reason.reason, reason.kept_for_id) == (
        Reason.RESERVED,
        given.workloads["a-both"].id,
    )
    # When the other comes free too, then A starts, and B's waits for lack of devices
    outcome = given.finish("b-1").settle()
    assert outcome.started == ["a-both"]
    assert outcome.reason("b-2").reason is Reason.INSUFFICIENT_RESOURCES


def test_before_the_time_is_over_nothing_is_kept():
    given = two_gpus_of_which_one_comes_free(waited_s=AFTER_S - 2)
    assert given.workspace("b-2", of="b", gpu="1").settle().started == ["b-2"]


def test_work_that_may_be_interrupted_uses_what_is_kept_meanwhile():
    # Given the same, and preemptible work of B that borrows nothing
    given = two_gpus_of_which_one_comes_free(waited_s=AFTER_S)
    # When it asks for the free GPU, then it gets it
    assert given.training("b-2", of="b", gpu="1").settle().started == ["b-2"]


def test_the_head_of_a_queue_that_a_limit_holds_back_does_not_starve():
    given = (
        Cluster(gpus="1", starvation_after_s=AFTER_S)
        .department("d", quota="1")
        .project("a", of="d", quota="0.50", limit="0.50")
        .training("a-0", of="a", gpu="0.50", on=0)
        .training("a-1", of="a", gpu="0.50")
    )
    assert given.settle().plan.starving_ids == ()


@drawn(clusters(), st.data())
def test_no_reserved_node_takes_work_of_others_that_may_not_be_interrupted(found, data):
    # Given a random cluster in which some of what waits has waited too long
    snapshot, policy = found
    policy = replace(policy, starvation_after_s=AFTER_S)
    waited = st.sampled_from((None, NOW_US, NOW_US - AFTER_S * SECOND_US))
    workloads = tuple(
        workload if workload.replicas else replace(workload, starving_since_us=data.draw(waited))
        for workload in snapshot.workloads
    )
    snapshot = replace(snapshot, workloads=workloads)
    # When a cycle runs
    plan = settle(snapshot=snapshot, policy=policy, now_us=NOW_US)
    # Then a node is kept for each who has starved and matches one, and for nobody else
    by_id = {workload.id: workload for workload in workloads}
    assert all(
        by_id[each].starving_since_us == NOW_US - AFTER_S * SECOND_US for each in plan.reservations
    )
    assert len(set(plan.reservations.values())) == len(plan.reservations)
    # And no one else's work that may not be interrupted starts there
    for decision in plan.decisions:
        if not isinstance(decision, Start) or by_id[decision.workload_id].preemptible:
            continue
        kept = {node for who, node in plan.reservations.items() if who != decision.workload_id}
        assert not {placement.node for placement in decision.placements} & kept


@pytest.mark.parametrize("seconds", [1, AFTER_S * 10])
def test_with_the_setting_at_0_nothing_is_ever_kept(seconds):
    given = two_gpus_of_which_one_comes_free(waited_s=seconds)
    given.policy = replace(given.policy, starvation_after_s=0)
    outcome = given.workspace("b-2", of="b", gpu="1").settle()
    assert (outcome.started, dict(outcome.plan.reservations)) == (["b-2"], {})
