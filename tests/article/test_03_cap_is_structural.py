"""Verification 3: the limit of a department is a structural guarantee, not a habit."""

from __future__ import annotations

from scheduler.core.vocabulary import Level, Reason
from tests.article.scene import one_card


def with_seven_submitted():
    given = one_card()
    for number in range(1, 8):
        given.training(f"train-{number}", of="unit-a", gpu="0.09")
    return given


def test_seven_submitted_five_run_two_wait():
    # Given 0.30 running in dev-test and 0.12 in production, in a project guaranteed 0.09
    given = with_seven_submitted()
    # When seven trainings of 0.09 are submitted at once
    outcome = given.settle()
    # Then five run, in the order in which they came, and two wait
    assert outcome.started == ["train-1", "train-2", "train-3", "train-4", "train-5"]
    assert given.waiting() == ["train-6", "train-7"]


def test_the_reason_names_the_department_its_limit_what_is_held_and_what_was_asked():
    given = with_seven_submitted()
    outcome = given.settle()
    for name in ("train-6", "train-7"):
        hold = outcome.reason(name)
        assert hold.reason is Reason.OVER_LIMIT
        assert (hold.level, outcome.queue(hold)) == (Level.DEPARTMENT, "dev-test")
        assert (hold.limit, hold.allocated, hold.requested) == (760, 750, 90)


def test_the_machine_has_0_13_idle_and_the_rule_keeps_it():
    given = with_seven_submitted()
    given.settle()
    assert given.held() == "0.87"


def test_room_to_borrow_is_the_departments_limit_less_what_it_holds():
    # Given that four jobs would fit if only unused quotas of siblings counted
    given = with_seven_submitted()
    # When the cycle runs
    given.settle()
    # Then it is five, for 0.76 - 0.30 = 0.46
    assert len(given.running(of="unit-a")) == 5
