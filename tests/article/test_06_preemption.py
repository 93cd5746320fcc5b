"""Verification 6: inside one project the more urgent pushes out the lesser, which resumes by itself."""

from __future__ import annotations

import pytest

from scheduler.core.vocabulary import Reason
from tests.builders import Cluster


def one_project(*, limit=None, over_quota=True):
    """A project of 0.30 with one service (0.15) and one training (0.15): its quota is in use."""
    return (
        Cluster(gpus="1")
        .department("dev", quota="1")
        .project("team", of="dev", quota="0.30", limit=limit, over_quota=over_quota)
        .inference("first", of="team", gpu="0.15", on=0)
        .training("train", of="team", gpu="0.15", on=0)
    )


def test_a_second_service_pushes_out_the_training_and_not_the_first_service():
    # Given a project with limit == quota, full
    given = one_project(limit="0.30")
    # When a second service is submitted
    outcome = given.inference("second", of="team", gpu="0.15").settle()
    # Then the training waits, and both services run
    assert outcome.evictions == [("preempt", "second", ["train"])]
    assert given.running() == ["first", "second"]
    assert outcome.reason("train").reason is Reason.OVER_LIMIT


def test_switching_borrowing_off_is_the_same_as_limit_equal_to_quota():
    given = one_project(over_quota=False)
    outcome = given.inference("second", of="team", gpu="0.15").settle()
    assert outcome.evictions == [("preempt", "second", ["train"])]


def test_a_project_with_room_to_borrow_takes_the_room_and_preempts_nobody():
    # Given the same project with borrowing on and the card half empty
    given = one_project()
    # When a preemptible service is submitted, which may borrow
    outcome = given.inference("second", of="team", gpu="0.15", preemptible=True).settle()
    # Then it starts beside the training
    assert outcome.evictions == []
    assert given.running() == ["first", "train", "second"]


def test_the_training_resumes_by_itself_when_the_second_service_is_deleted():
    given = one_project(limit="0.30").inference("second", of="team", gpu="0.15")
    given.settle()
    first_submitted = given.workloads["train"].submitted_at_us
    # When the second service is deleted
    outcome = given.finish("second").settle()
    # Then the training starts again, in its old place in line
    assert outcome.started == ["train"]
    assert given.workloads["train"].submitted_at_us == first_submitted


@pytest.mark.parametrize("priority", [40, 25])
def test_equal_or_lower_priority_does_not_preempt(priority):
    given = one_project(limit="0.30")
    outcome = given.training("late", of="team", gpu="0.15", priority=priority).settle()
    assert outcome.evictions == []
    assert outcome.reason("late").reason is Reason.OVER_LIMIT


def test_reclaim_is_not_preemption_another_projects_lesser_work_is_safe_within_its_quota():
    # Given the card full: a neighbor's low training within its own quota
    given = (
        Cluster(gpus="1")
        .department("dev", quota="1")
        .project("team", of="dev", quota="0.30")
        .project("neighbor", of="dev", quota="0.70")
        .training("theirs", of="neighbor", gpu="0.70", on=0, priority=25)
        .training("ours", of="team", gpu="0.30", on=0)
    )
    # When team submits a service of very high priority beyond what lesser work of its own frees
    outcome = given.inference("urgent", of="team", gpu="0.30").settle()
    # Then only its own training yields
    assert outcome.evictions == [("preempt", "urgent", ["ours"])]
    assert "theirs" in given.running()
