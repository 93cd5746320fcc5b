"""Field scenarios B10 to B13: reclaim stops at the guarantee, takes little, and never for nothing."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.vocabulary import Reason, ReplicaPhase
from tests.builders import SECOND_US, Cluster


def test_b10_reclaim_restores_a_guarantee_and_never_an_equal_split():
    # Given A (0.09) running four of 0.09, B and C (0.09) nothing, and 0.09 free in the department
    given = Cluster(gpus="1").department("d", quota="0.45", limit="0.45")
    for name in "abc":
        given.project(name, of="d", quota="0.09")
    for number in range(4):
        given.training(f"a-{number}", of="a", gpu="0.09", on=0)
    # When B submits three
    for number in range(3):
        given.training(f"b-{number}", of="b", gpu="0.09")
    outcome = given.settle()
    # Then one starts in the free room, and nobody is evicted
    assert (outcome.started, outcome.evictions) == (["b-0"], [])
    # When C submits one
    outcome = given.training("c-0", of="c", gpu="0.09").settle()
    # Then exactly one of A's stops, and B's is not touched
    assert outcome.evictions == [("reclaim", "c-0", ["a-3"])]
    assert given.running(of="b") == ["b-0"]
    assert {outcome.reason(name).reason for name in ("b-1", "b-2")} == {Reason.OVER_LIMIT}


def test_b11_free_room_counts_first_and_no_more_is_taken_than_is_lacking():
    # Given one card with 0.06 free; A borrows 0.10 four times and 0.30
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("a", of="d", quota="0")
        .project("c", of="d", quota="0.12")
        .project("e", of="d", quota="0.24")
        .training("e-own", of="e", gpu="0.24", on=0)
        .training("a-30", of="a", gpu="0.30", on=0)
    )
    for number in range(4):
        given.training(f"a-10-{number}", of="a", gpu="0.10", on=0)
    # When C submits 0.12
    outcome = given.training("c-0", of="c", gpu="0.12").settle()
    # Then one of 0.10 stops: not the 0.30, not two; and the record names the shortfall
    assert outcome.evictions == [("reclaim", "c-0", ["a-10-3"])]
    decision = outcome.plan.decisions[0]
    assert decision.shortfall_mgpu == 60
    assert [check.holds for check in decision.checks] == [True]


def two_cards():
    """Card 0: X 0.50 in quota, A1 0.30 and A2 0.20 borrowed. Card 1: Y 0.60 in quota, A3 0.40."""
    return (
        Cluster(gpus="2")
        .department("d", quota="2")
        .project("x", of="d", quota="0.50")
        .project("y", of="d", quota="0.60")
        .project("a", of="d", quota="0")
        .project("c", of="d", quota="0.60")
        .training("x-1", of="x", gpu="0.50", on=0)
        .training("a-1", of="a", gpu="0.30", on=0)
        .training("a-2", of="a", gpu="0.20", on=0)
        .training("y-1", of="y", gpu="0.60", on=1)
        .training("a-3", of="a", gpu="0.40", on=1)
    )


def test_b12_victims_are_taken_where_the_request_then_fits():
    given = two_cards()
    outcome = given.training("c-1", of="c", gpu="0.50").settle()
    assert [(rule, served) for rule, served, _ in outcome.evictions] == [("reclaim", "c-1")]
    assert sorted(outcome.evictions[0][2]) == ["a-1", "a-2"]
    assert given.workloads["c-1"].replicas[0].placement.devices == (0,)
    assert "a-3" in given.running()


def test_b12_nobody_is_stopped_where_it_would_not_help():
    given = two_cards()
    outcome = given.training("c-1", of="c", gpu="0.60").settle()
    assert outcome.evictions == []
    assert outcome.reason("c-1").reason is Reason.INSUFFICIENT_RESOURCES


def with_a_gang(*, single=True):
    """One card: a borrowed gang of 2 x 0.20 and, maybe, a borrowed single of 0.20; the rest is held."""
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("lender", of="d", quota="0.40")
        .project("borrower", of="d", quota="0")
        .project("rest", of="d", quota="0.60")
        .training("held", of="rest", gpu="0.40" if single else "0.60", on=0)
        .gang("gang", of="borrower", workers=2, gpu="0.20", on=[0, 0])
    )
    if single:
        given.training("single", of="borrower", gpu="0.20", on=0)
    return given


def test_b13_a_single_goes_before_half_a_gang():
    given = with_a_gang()
    outcome = given.training("claim", of="lender", gpu="0.20").settle()
    assert outcome.evictions == [("reclaim", "claim", ["single"])]
    assert given.replicas("gang") == 2


def test_b13_where_as_much_is_claimed_as_the_gang_holds_it_goes_whole_and_the_single_stays():
    # Given a gang of 2 x 0.20 and a single of 0.20, both borrowed
    given = with_a_gang()
    # When 0.40 is claimed
    outcome = given.training("claim", of="lender", gpu="0.40").settle()
    # Then both workers stop with one decision, and nobody else does
    assert outcome.evictions == [("reclaim", "claim", ["gang"])]
    assert len(outcome.plan.decisions[0].victims[0].replica_ids) == 2
    assert given.replicas("gang") == 0
    assert "single" in given.running()


def test_b13_a_gang_goes_whole_and_comes_back_whole():
    given = with_a_gang(single=False)
    # When 0.20 is claimed and only the gang could give it
    outcome = given.training("claim", of="lender", gpu="0.20").settle()
    # Then both workers stop with one decision
    assert outcome.evictions == [("reclaim", "claim", ["gang"])]
    assert len(outcome.plan.decisions[0].victims[0].replica_ids) == 2
    assert given.replicas("gang") == 0
    # When the claim is over
    outcome = given.finish("claim").settle()
    # Then both start together
    assert outcome.started == ["gang"]
    assert given.replicas("gang") == 2


def test_b13_a_gang_that_lost_a_worker_is_stopped_whole_and_waits():
    given = with_a_gang(single=False)
    given.lose("gang", keep=1)
    outcome = given.training("fill", of="rest", gpu="0.20").settle()
    assert outcome.evictions == [("lost", None, ["gang"])]
    assert given.replicas("gang") in (0, 2)


def test_a_further_replica_does_not_start_before_the_minimum_whose_place_is_still_being_vacated():
    # Given a full project with a training of 0.90 on one card, and another card free
    given = (
        Cluster(gpus="2")
        .department("d", quota="0.90", limit="0.90")
        .project("p", of="d", quota="0.90")
        .training("lesser", of="p", gpu="0.90", on=0, priority=25)
    )
    # When an elastic gang of one to two workers of 0.10 comes
    outcome = given.gang("elastic", of="p", workers=1, most=2, gpu="0.10").decide()
    # Then the lesser work is being stopped, and neither worker runs yet
    assert outcome.evictions == [("preempt", "elastic", ["lesser"])]
    assert given.decide().started == []
    # When it is gone, the minimum starts first and the further worker after it
    assert given.wait().decide().started == ["elastic", "elastic"]


def test_a_service_of_many_like_replicas_gives_back_as_many_as_are_lacking():
    # Given a preemptible service of A (quota 0) with 40 replicas of a whole card, one of them its
    # minimum, on a full node; there are 2 ** 39 subsets of its further replicas
    given = (
        Cluster(gpus="40")
        .department("d", quota="40")
        .project("a", of="d", quota="0")
        .project("c", of="d", quota="3")
        .inference("wide", of="a", gpu="1", on=list(range(40)), preemptible=True, most=40)
    )
    # When C, which is guaranteed 3, asks for 3 cards
    outcome = given.training("c-0", of="c", gpu="1", devices=3).settle()
    # Then exactly three replicas go, and the service runs on with the rest
    assert outcome.started == ["c-0"]
    assert outcome.evictions == [("reclaim", "c-0", ["wide"])]
    (decision, *_) = outcome.plan.decisions
    (victim,) = decision.victims
    assert (len(victim.replica_ids), victim.whole) == (3, False)
    assert given.replicas("wide") == 37


def test_what_is_still_starting_is_taken_back_like_what_runs():
    # Given a card on which borrowed work was placed a moment ago and does not run yet
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("a", of="d", quota="0")
        .project("c", of="d", quota="1")
        .training("a-0", of="a", gpu="1", on=0)
    )
    (replica,) = given.workloads["a-0"].replicas
    starting = replace(replica, phase=ReplicaPhase.STARTING)
    given._change("a-0", replicas=(starting,), running_since_us=None)
    # When the owner of the guarantee asks, then nobody waits for a start to succeed first
    outcome = given.training("c-0", of="c", gpu="1").decide()
    assert outcome.evictions == [("reclaim", "c-0", ["a-0"])]
    assert outcome.started == []
    assert given.wait().decide().started == ["c-0"]


def test_the_minimum_runtime_of_what_is_still_starting_counts_from_its_placing():
    given = (
        Cluster(gpus="1", min_runtime_s=60)
        .department("d", quota="1")
        .project("a", of="d", quota="0")
        .project("c", of="d", quota="1")
        .training("a-0", of="a", gpu="1", on=0)
    )
    (replica,) = given.workloads["a-0"].replicas
    starting = replace(replica, phase=ReplicaPhase.STARTING)
    given._change("a-0", replicas=(starting,), running_since_us=None)
    given.training("c-0", of="c", gpu="1")
    # Given less than a minute since, then it stays; a start that hangs is not protected for ever
    assert given.decide().evictions == []
    given.now_us += 60 * SECOND_US
    assert given.decide().evictions == [("reclaim", "c-0", ["a-0"])]
