"""What becomes of a workload when its replicas end."""

from __future__ import annotations

import pytest

from scheduler.core.lifecycle import Ended, Ending, Standing, classify, settle
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase


def standing(**changes):
    values = {
        "kind": Kind.TRAINING,
        "min_replicas": 1,
        "stop_requested": False,
        "failures": 0,
        "max_attempts": 3,
    }
    return Standing(**{**values, **changes})


def after(*endings, alive=(), **changes):
    ended = [Ended(ending=ending, exit_code=None) for ending in endings]
    return settle(standing=standing(**changes), ended=ended, alive=alive)


ENDINGS = [
    # a replica that ...                       exit  signal  was asked    lost   is
    ("ends by itself with 0",                  0,    None,   "",          False, Ending.FINISHED),
    ("ends by itself with 1",                  1,    None,   "",          False, Ending.FAILED),
    ("is killed by somebody else",             None, 9,      "",          False, Ending.FAILED),
    ("leaves on SIGTERM after a reclaim",      143,  None,   "reclaim",   False, Ending.INTERRUPTED),
    ("is killed after its grace",              None, 9,      "preempt",   False, Ending.INTERRUPTED),
    ("finishes with 0 during its grace",       0,    None,   "reclaim",   False, Ending.FINISHED),
    ("leaves because a person stopped it",     0,    None,   "by_user",   False, Ending.STOPPED),
    ("took more than its memory",              None, 9,      "over_memory", False, Ending.FAILED),
    ("is gone without a word",                 None, None,   "",          True,  Ending.LOST),
    ("was one too many",                       143,  None,   "scale_down", False, Ending.SCALED_DOWN),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "exit_code", "signal", "asked", "lost", "expected"), ENDINGS)
def test_how_a_replica_ended(sentence, exit_code, signal, asked, lost, expected):
    found = classify(exit_code=exit_code, signal=signal, stop_code=asked, lost=lost)
    assert found is expected, sentence


def test_a_training_that_finishes_is_completed():
    assert after(Ending.FINISHED).phase is Phase.COMPLETED


def test_an_interrupted_training_waits_again_and_no_failure_is_counted():
    outcome = after(Ending.INTERRUPTED, failures=2)
    assert (outcome.phase, outcome.failures, outcome.pause_s) == (Phase.PENDING, 2, 0)


def test_failures_pause_longer_each_time_and_end_after_the_last_attempt():
    # Given a training that may fail three times, when it fails three times
    pauses = []
    failures = 0
    for _ in range(3):
        outcome = after(Ending.FAILED, failures=failures)
        failures = outcome.failures
        pauses.append((outcome.phase, outcome.pause_s))
    # Then it pauses 5 s, then 10 s, then it is Failed
    assert pauses == [(Phase.PENDING, 5), (Phase.PENDING, 10), (Phase.FAILED, 0)]


def test_a_service_never_gives_up_and_its_pause_is_capped():
    outcome = after(Ending.FAILED, kind=Kind.INFERENCE, failures=40, max_attempts=0)
    assert (outcome.phase, outcome.pause_s) == (Phase.PENDING, 300)


def test_a_service_that_exits_with_0_by_itself_has_failed():
    outcome = after(Ending.FINISHED, kind=Kind.INFERENCE, max_attempts=0)
    assert (outcome.phase, outcome.failures) == (Phase.PENDING, 1)


def test_a_service_below_its_minimum_is_degraded():
    outcome = after(
        Ending.LOST,
        alive=[ReplicaPhase.RUNNING],
        kind=Kind.INFERENCE,
        min_replicas=2,
        max_attempts=0,
    )
    assert outcome.phase is Phase.DEGRADED


def test_a_gang_that_loses_a_member_ends_whole_and_waits_as_a_whole():
    gang = {"kind": Kind.DISTRIBUTED, "min_replicas": 2}
    # Given a gang of two, when one member is lost, then the other is ended too
    assert after(Ending.LOST, alive=[ReplicaPhase.RUNNING], **gang).end_the_rest
    # And when that one is gone, the gang waits, with no failure counted
    outcome = after(Ending.GANG, **gang)
    assert (outcome.phase, outcome.failures) == (Phase.PENDING, 0)


def test_a_gang_whose_member_fails_for_the_last_time_is_failed_once_all_are_gone():
    gang = {"kind": Kind.DISTRIBUTED, "min_replicas": 2}
    first = after(Ending.FAILED, alive=[ReplicaPhase.RUNNING], failures=2, **gang)
    assert (first.end_the_rest, first.failures) == (True, 3)
    assert after(Ending.GANG, failures=3, **gang).phase is Phase.FAILED


def test_what_a_person_stops_is_stopped_however_it_exits():
    outcome = after(Ending.STOPPED, stop_requested=True)
    assert (outcome.phase, outcome.failures) == (Phase.STOPPED, 0)


def test_a_workload_is_stopping_while_any_of_its_replicas_still_holds():
    outcome = after(
        Ending.INTERRUPTED,
        alive=[ReplicaPhase.STOPPING],
        kind=Kind.DISTRIBUTED,
        min_replicas=2,
    )
    assert outcome.phase is Phase.STOPPING
