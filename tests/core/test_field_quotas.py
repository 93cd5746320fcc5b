"""Field scenarios B01 to B05 and B14: limits, guarantees, exact amounts, one book a card."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Level, Reason
from scheduler.queries.reasons import why_waiting
from tests.builders import Cluster


def dev_test(held):
    """Return a card with dev-test (0.75, limit 0.76), which holds ``held``, and production."""
    given = (
        Cluster(gpus="1")
        .department("prod", quota="0.25")
        .project("prod", of="prod", quota="0.25")
        .department("dev-test", quota="0.75", limit="0.76")
        .project("unit", of="dev-test", quota="0.75")
        .inference("service", of="prod", gpu="0.12", on=0)
    )
    for number, gpu in enumerate(held):
        given.training(f"held-{number}", of="unit", gpu=gpu, on=0)
    return given


def test_b01_the_gate_asks_whether_it_fits_not_whether_it_is_full():
    # Given 0.75 of a limit of 0.76 allocated, and 0.13 of the card free
    given = dev_test(["0.45", "0.30"])
    # When one asks for 0.09 and one for 0.01
    outcome = (
        given.training("large", of="unit", gpu="0.09").training("tiny", of="unit", gpu="0.01")
    ).settle()
    # Then the limit is reached exactly, never passed, and the reason does not say that the card is full
    assert outcome.started == ["tiny"]
    hold = outcome.reason("large")
    assert (hold.reason, hold.level, outcome.queue(hold)) == (
        Reason.OVER_LIMIT,
        Level.DEPARTMENT,
        "dev-test",
    )
    assert (hold.limit, hold.allocated, hold.requested) == (760, 760, 90)
    assert given.held() == "0.88"


def test_b02_several_devices_times_a_fraction_is_their_product():
    # Given a project with 1.00 and four cards with room
    given = Cluster(gpus="4").department("d", quota="4").project("team", of="d", quota="1.00")
    # When a workspace asks for 2 x 0.60 and another for 2 x 0.50
    outcome = (
        given.workspace("six", of="team", gpu="0.60", devices=2).workspace(
            "five", of="team", gpu="0.50", devices=2
        )
    ).settle()
    # Then 1.20 is over the guarantee, and 1.00 is not
    assert outcome.started == ["five"]
    hold = outcome.reason("six")
    assert (hold.reason, hold.quota, hold.allocated, hold.requested) == (
        Reason.NON_PREEMPTIBLE_OVER_QUOTA,
        1000,
        1000,
        1200,
    )
    assert len(set(given.workloads["five"].replicas[0].placement.devices)) == 2


def with_a_cut_quota():
    return (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("a", of="d", quota="0.30", limit="0.30")
        .project("b", of="d", quota="0.90")
        .workspace("desk", of="a", gpu="0.20", on=0)
        .training("train", of="a", gpu="0.10", on=0)
        .set_quota("a", quota="0.15", limit="0.15")
    )


def test_b03_a_quota_cut_below_what_runs_interrupts_nobody_and_admits_nobody():
    # Given a workspace of 0.20 and a training of 0.10, and a quota cut from 0.30 to 0.15
    given = with_a_cut_quota()
    # When one more training is submitted
    outcome = given.training("more", of="a", gpu="0.01").settle()
    # Then nothing is interrupted and nothing new starts
    assert outcome.evictions == []
    assert outcome.reason("more").reason is Reason.OVER_LIMIT


def test_b03_from_the_cut_on_the_training_may_be_reclaimed_and_the_workspace_may_not():
    given = with_a_cut_quota()
    # When someone asks for a guarantee for which both would have to go
    outcome = given.training("claim", of="b", gpu="0.75").settle()
    assert outcome.evictions == [("reclaim", "claim", ["train"])]
    outcome = given.training("claim-2", of="b", gpu="0.15").settle()
    assert outcome.evictions == []
    assert "desk" in given.running()


def test_b03_raising_the_quota_again_clears_it():
    given = with_a_cut_quota().set_quota("a", quota="0.31", limit="0.31")
    assert given.training("more", of="a", gpu="0.01").settle().started == ["more"]


def test_b04_oversubscribed_guarantees_leave_work_within_its_quota_alone():
    # Given a department of 0.25 that promised 0.20 twice, and one of them in use
    given = (
        Cluster(gpus="1")
        .department("d", quota="0.25", limit="0.25")
        .project("p1", of="d", quota="0.20")
        .project("p2", of="d", quota="0.20")
        .training("first", of="p1", gpu="0.20", on=0)
        .training("second", of="p2", gpu="0.20")
    )
    # When fifty cycles run
    outcomes = [given.settle() for _ in range(50)]
    # Then nobody is ever evicted, and the reason names the department's limit and what it promised
    assert [outcome.evictions for outcome in outcomes] == [[]] * 50
    hold = outcomes[-1].reason("second")
    assert (hold.reason, outcomes[-1].queue(hold)) == (Reason.OVER_LIMIT, "d")
    assert (hold.limit, hold.promised) == (250, 400)
    why = why_waiting(code=hold.reason.value, numbers=hold.numbers(), queue="d").text
    assert "guaranteed 0.40 in all" in why


def test_b04_a_limit_that_covers_all_guarantees_is_not_called_oversubscribed():
    # Given a department of 0.45 that guarantees 0.40, and a borrower within its minimum runtime
    given = (
        Cluster(gpus="1")
        .department("d", quota="0.45", limit="0.45")
        .project("p1", of="d", quota="0.20")
        .project("p2", of="d", quota="0.20")
        .training("first", of="p1", gpu="0.30", on=0)
        .training("second", of="p2", gpu="0.20")
    )
    given.policy = replace(given.policy, min_runtime_s=10**9)
    # When the other asks for its guarantee
    hold = given.settle().reason("second")
    # Then the limit is the reason, and no promise is said to be broken
    assert (hold.reason, hold.limit, hold.promised) == (Reason.OVER_LIMIT, 450, None)


def test_b05_pieces_that_exactly_fill_a_limit_fit():
    given = (
        Cluster(gpus="1").department("d", quota="1").project("p", of="d", quota="0", limit="0.30")
    )
    for number in range(3):
        given.training(f"t-{number}", of="p", gpu="0.10")
    given.settle()
    assert given.running() == ["t-0", "t-1", "t-2"]


def test_b05_the_last_0_09_of_a_limit_fits():
    given = dev_test(["0.67"]).training("last", of="unit", gpu="0.09")
    assert given.settle().started == ["last"]


def test_b05_ten_tenths_fill_a_card_and_leave_exactly_nothing_behind():
    given = Cluster(gpus="1").department("d", quota="1").project("p", of="d", quota="1")
    names = [f"t-{number}" for number in range(10)]
    for name in names:
        given.training(name, of="p", gpu="0.10")
    given.settle()
    assert given.running() == names
    assert given.held() == "1.00"
    given.finish(*names)
    assert given.held() == format_gpu(0) == "0.00"


def test_b14_five_fractions_at_once_never_overfill_a_card():
    # Given two empty cards
    given = Cluster(gpus="2").department("d", quota="2").project("p", of="d", quota="2")
    # When five of 0.40 come at once
    for number in range(5):
        given.training(f"t-{number}", of="p", gpu="0.40")
    outcome = given.settle()
    # Then two run on each card and the fifth waits: 0.40 is free in all, but on no card
    cards = [given.workloads[name].replicas[0].placement.devices for name in given.running()]
    assert sorted(cards) == [(0,), (0,), (1,), (1,)]
    assert outcome.reason("t-4").reason is Reason.FRAGMENTED
    assert outcome.reason("t-4").largest == 200


def test_b14_memory_requests_are_summed_against_the_card():
    # Given one card of 46,068 MiB
    given = Cluster(gpus="1").department("d", quota="1").project("p", of="d", quota="1")
    # When 24 of 2,000 MiB come
    for number in range(24):
        given.training(f"t-{number}", of="p", mib=2000)
    outcome = given.settle()
    # Then 23 run and one waits
    assert len(given.running()) == 23
    assert outcome.reason("t-23").reason is Reason.INSUFFICIENT_RESOURCES
