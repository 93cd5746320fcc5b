"""Verification 5: borrowed across units, given back when the owner lacks its guarantee."""

from __future__ import annotations

from scheduler.core.vocabulary import Reason
from tests.article.scene import one_card


def with_unit_a_borrowing():
    """Unit A, guaranteed 0.09, runs four trainings of 0.09: three of them on what others leave idle."""
    given = one_card()
    for number in range(1, 5):
        given.training(f"a-{number}", of="unit-a", gpu="0.09", on=0)
    return given


def test_unit_b_submits_three_and_gets_its_guarantee_without_disturbing_anyone():
    # Given unit A with four trainings
    given = with_unit_a_borrowing()
    # When unit B, guaranteed 0.09, submits three of 0.09
    for number in range(1, 4):
        given.training(f"b-{number}", of="unit-b", gpu="0.09")
    outcome = given.settle()
    # Then one runs, two wait at dev-test's limit, and unit A is not touched at all
    assert outcome.started == ["b-1"]
    assert outcome.evictions == []
    assert {outcome.reason(name).reason for name in ("b-2", "b-3")} == {Reason.OVER_LIMIT}
    assert given.running(of="unit-a") == ["a-1", "a-2", "a-3", "a-4"]


def test_unit_c_which_holds_nothing_gets_its_guarantee_back_at_once():
    # Given that unit B runs one and waits with two
    given = with_unit_a_borrowing()
    for number in range(1, 4):
        given.training(f"b-{number}", of="unit-b", gpu="0.09")
    given.settle()
    # When unit C, which uses nothing, submits one of 0.09
    outcome = given.training("c-1", of="unit-c", gpu="0.09").settle()
    # Then exactly one of unit A's borrowed trainings, the youngest, yields
    assert outcome.evictions == [("reclaim", "c-1", ["a-4"])]
    assert given.running(of="unit-c") == ["c-1"]
    # and unit B's one, which runs on its guarantee, is not touched
    assert given.running(of="unit-b") == ["b-1"]


def test_live_the_owner_starts_where_the_borrower_left_and_nobody_comes_between():
    # Given that unit C's request names its victim
    given = with_unit_a_borrowing()
    given.training("b-1", of="unit-b", gpu="0.09", on=0)
    given.training("c-1", of="unit-c", gpu="0.09")
    outcome = given.decide()
    assert outcome.evictions == [("reclaim", "c-1", ["a-4"])]
    # When production wants the rest of the card while the victim is still being stopped
    given.inference("assistant-2", of="prod-inference", gpu="0.13")
    outcome = given.decide()
    # Then it gets what is free and no more, and c-1 waits for its own place
    assert outcome.started == ["assistant-2"]
    assert given.running(of="unit-c") == []
    # When the victim is gone
    outcome = given.wait(2).decide()
    # Then c-1 starts, and the victim waits at the limit with its first submission kept
    assert outcome.started == ["c-1"]
    assert outcome.reason("a-4").reason is Reason.OVER_LIMIT


def test_asking_for_more_than_the_guarantee_never_interrupts_anybody():
    # Given unit C with its guarantee of 0.18 in use and the department full
    given = with_unit_a_borrowing()
    given.training("c-1", of="unit-c", gpu="0.09", on=0)
    # When it asks for two more, of which only the first is within its guarantee
    given.training("c-2", of="unit-c", gpu="0.09").training("c-3", of="unit-c", gpu="0.09")
    outcome = given.settle()
    # Then only the first takes something back
    assert [served for _, served, _ in outcome.evictions] == ["c-2"]
    assert outcome.reason("c-3").reason is Reason.OVER_LIMIT


def test_a_high_rank_of_the_borrower_does_not_protect_it():
    given = (
        one_card()
        .project("unit-vip", of="dev-test", quota="0", rank=5, weight=9)
        .training("vip-1", of="unit-vip", gpu="0.45", on=0)
        .training("c-1", of="unit-c", gpu="0.18")
    )
    assert given.settle().evictions == [("reclaim", "c-1", ["vip-1"])]
