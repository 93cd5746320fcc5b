"""Field scenarios B06 to B09: rank and weight, no ping-pong, no head of line, who comes back first."""

from __future__ import annotations

import pytest

from scheduler.core.vocabulary import Kind, Rank, Reason
from tests.builders import Cluster


def three_projects(demands, *, reverse=False):
    """Five cards; A: quota 1, rank High, weight 1. B: 1, Medium, 2. C: 0, Medium, 1."""
    rows = [
        ("a", "1", Rank.HIGH, 1),
        ("b", "1", Rank.MEDIUM, 2),
        ("c", "0", Rank.MEDIUM, 1),
    ]
    given = Cluster(gpus="5").department("d", quota="5")
    for name, quota, rank, weight in reversed(rows) if reverse else rows:
        given.project(name, of="d", quota=quota, rank=rank, weight=weight)
    for name, count in sorted(demands.items(), reverse=reverse):
        for number in range(count):
            given.training(f"{name}-{number}", of=name, gpu="1")
    return given


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("demands", "run"),
    [
        ({"a": 1, "b": 3, "c": 2}, {"a": 1, "b": 3, "c": 1}),
        ({"a": 4, "b": 3, "c": 2}, {"a": 4, "b": 1, "c": 0}),
    ],
)
def test_b06_rank_first_then_weight_whatever_the_order_of_creation(demands, run, reverse):
    given = three_projects(demands, reverse=reverse)
    outcome = given.settle()
    assert {name: len(given.running(of=name)) for name in "abc"} == run
    # and the fair share that is shown says the same
    shares = outcome.plan.fair_share_projects
    assert {name: shares[given.projects[name].id] for name in "abc"} == {
        name: 1000 * count for name, count in run.items()
    }


def test_b06_weight_0_gets_no_surplus_while_another_of_its_rank_wants_it():
    given = (
        Cluster(gpus="2")
        .department("d", quota="2")
        .project("none", of="d", weight=0)
        .project("some", of="d", weight=1)
        .training("early", of="none", gpu="1")
        .training("late-1", of="some", gpu="1")
        .training("late-2", of="some", gpu="1")
    )
    given.settle()
    assert given.running() == ["late-1", "late-2"]


def with_borrowers():
    """0.30 in all: A (0.15) runs 0.15 and borrows 0.10; B (0.15) runs nothing; BE (0) borrows 0.05."""
    return (
        Cluster(gpus="1")
        .department("d", quota="0.30", limit="0.30")
        .project("a", of="d", quota="0.15")
        .project("b", of="d", quota="0.15")
        .project("be", of="d", quota="0")
        .training("a-own", of="a", gpu="0.15", on=0)
        .training("a-lent", of="a", gpu="0.10", on=0)
        .training("be-1", of="be", gpu="0.05", on=0)
    )


def test_b07_asking_for_more_than_the_guarantee_pushes_nobody_out_ever():
    given = with_borrowers().training("a-more", of="a", gpu="0.05")
    for _ in range(20):
        assert given.settle().evictions == []
    assert "a-more" in given.waiting()


def test_b07_the_owner_takes_its_guarantee_in_two_evictions_and_then_there_is_peace():
    given = with_borrowers().training("a-more", of="a", gpu="0.05")
    given.settle()
    # When B submits 0.15
    outcome = given.training("b-1", of="b", gpu="0.15").settle()
    # Then the two borrowers stop, B runs, and nobody moves afterwards
    assert [(rule, served) for rule, served, _ in outcome.evictions] == [("reclaim", "b-1")]
    assert sorted(outcome.evictions[0][2]) == ["a-lent", "be-1"]
    assert given.running() == ["a-own", "b-1"]
    for _ in range(20):
        outcome = given.settle()
        assert (outcome.started, outcome.evictions) == ([], [])


@pytest.mark.parametrize("copies", [1, 1000])
def test_b08_what_cannot_start_blocks_nothing_behind_it(copies):
    # Given room for 0.13 and, in order, ``copies`` of 0.50, one of 0.09 and one without GPU
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("p", of="d", quota="1")
        .training("held", of="p", gpu="0.87", on=0)
    )
    for number in range(copies):
        given.training(f"large-{number:04d}", of="p", gpu="0.50")
    given.training("small", of="p", gpu="0.09").training("plain", of="p")
    # When a cycle runs
    outcome = given.settle()
    # Then both small ones start, and the large ones keep their own reason
    assert outcome.started == ["small", "plain"]
    assert outcome.reason("large-0000").reason is Reason.INSUFFICIENT_RESOURCES
    assert len(outcome.plan.holds) == copies


def test_b09_at_equal_priority_the_youngest_is_stopped_and_comes_back_before_who_never_ran():
    # Given a full project with T1 and T2 running and T3 waiting
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("p", of="d", quota="0.18", limit="0.18")
        .training("t1", of="p", gpu="0.09")
        .training("t2", of="p", gpu="0.09")
        .training("t3", of="p", gpu="0.09")
    )
    given.settle()
    assert given.running() == ["t1", "t2"]
    # When a service comes
    outcome = given.inference("service", of="p", gpu="0.09").settle()
    # Then the younger training is stopped
    assert outcome.evictions == [("preempt", "service", ["t2"])]
    # When the service is deleted a minute later
    outcome = given.finish("service").wait(60).settle()
    # Then T2 continues before T3 starts
    assert outcome.started == ["t2"]


def test_b09_two_of_the_same_second_are_told_apart_by_name():
    given = Cluster(gpus="1").department("d", quota="1").project("p", of="d", quota="1")
    for name in ("beta", "alpha"):
        given.workload(name, kind=Kind.TRAINING, of="p", gpu="0.60")
        given.now_us -= 1_000_000
    assert given.settle().started == ["alpha"]
