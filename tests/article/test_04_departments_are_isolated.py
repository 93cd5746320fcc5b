"""Verification 4: a full department does not delay another one, nor is it disturbed by it."""

from __future__ import annotations

from tests.article.scene import one_card


def with_a_full_development_zone():
    given = one_card()
    for number in range(1, 8):
        given.training(f"train-{number}", of="unit-a", gpu="0.09")
    given.settle()
    return given


def test_production_starts_at_once_though_development_is_at_its_limit():
    # Given five trainings running and two waiting at dev-test's limit
    given = with_a_full_development_zone()
    # When production submits one more service of 0.12
    outcome = given.inference("assistant-2", of="prod-inference", gpu="0.12").settle()
    # Then it starts, and 0.45 + 0.30 + 0.24 = 0.99 is held
    assert outcome.started == ["assistant-2"]
    assert given.held() == "0.99"


def test_the_trainings_that_run_are_not_touched():
    given = with_a_full_development_zone()
    before = {name: given.workloads[name].replicas for name in given.running(of="unit-a")}
    outcome = given.inference("assistant-2", of="prod-inference", gpu="0.12").settle()
    assert outcome.evictions == []
    assert {name: given.workloads[name].replicas for name in before} == before
