"""What every engine must do, whatever it is made of: one suite, run against each."""

from __future__ import annotations

import pytest

from scheduler.engines.base import (
    EndCause,
    EngineError,
    EnginePhase,
    LaunchRefused,
    ReplicaKey,
)
from tests.engines.harness import (
    Harness,
    find,
    launch,
    service,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)


def is_running(seen) -> bool:
    return seen.phase is EnginePhase.RUNNING


def test_a_launched_replica_runs(any_engine: Harness):
    # When a replica is launched
    key = launch(any_engine, spec(any_engine.runs_on()))

    # Then it is seen running, with its process, and is ready as it is no service
    seen = wait_for(any_engine, key, is_running)
    assert seen.ready
    assert (seen.pid is not None) == any_engine.names_processes
    assert seen.started_at is not None
    assert seen.started_at <= seen.last_seen_at
    assert seen.ended_at is None
    assert seen.endpoint is None


def test_launching_twice_is_once(any_engine: Harness):
    # Given a running replica
    key = launch(any_engine, spec(any_engine.runs_on()))
    first = wait_for(any_engine, key, is_running)

    # When the same key is launched again
    launch(any_engine, spec(any_engine.runs_on()))

    # Then it is the same process, and the only one
    again = wait_for(any_engine, key, is_running)
    assert (again.pid, again.started_at) == (first.pid, first.started_at)
    assert len(any_engine.engine.observe()) == 1


def test_a_key_runs_once_ever(any_engine: Harness):
    # Given a replica that has ended and was forgotten
    key = launch(any_engine, spec(any_engine.exits(0)))
    wait_ended(any_engine, key)
    any_engine.engine.forget(key)

    # When its key is launched again
    launch(any_engine, spec(any_engine.runs_on()))

    # Then nothing runs
    any_engine.pass_time()
    assert any_engine.engine.observe() == ()


def test_the_exit_code_is_kept(any_engine: Harness):
    key = launch(any_engine, spec(any_engine.exits(3)))
    seen = wait_ended(any_engine, key)
    assert (seen.phase, seen.cause) == (EnginePhase.EXITED, EndCause.EXITED)
    assert (seen.exit_code, seen.signal) == (3, None)


def test_an_ended_replica_is_told_of_until_it_is_forgotten(any_engine: Harness):
    # Given a replica that has ended
    key = launch(any_engine, spec(any_engine.exits(0)))
    wait_ended(any_engine, key)

    # When the engine is asked again, also by a new control plane
    any_engine.restart()
    assert wait_ended(any_engine, key).exit_code == 0

    # Then it is told of until it is forgotten, and forgetting twice is no error
    any_engine.engine.forget(key)
    any_engine.engine.forget(key)
    assert find(any_engine, key) is None


def test_what_runs_is_not_forgotten(any_engine: Harness):
    key = launch(any_engine, spec(any_engine.runs_on()))
    wait_for(any_engine, key, is_running)
    with pytest.raises(EngineError, match="has not ended"):
        any_engine.engine.forget(key)


def test_terminate_ends_a_replica_that_obeys(any_engine: Harness):
    # Given a running replica
    key = launch(any_engine, spec(any_engine.runs_on()))
    wait_for(any_engine, key, is_running)

    # When it is terminated
    any_engine.engine.terminate(key, grace_s=30, reason="reclaim")

    # Then it ends by SIGTERM, long before its grace is over, and says why
    seen = wait_ended(any_engine, key)
    assert (seen.cause, seen.stop_reason) == (EndCause.TERMINATED, "reclaim")
    assert seen.signal == 15
    assert seen.term_sent_at is not None
    assert seen.ended_at is not None
    assert seen.term_sent_at <= seen.ended_at


def test_one_that_ignores_sigterm_is_killed_after_its_grace(any_engine: Harness):
    # Given a replica that does not hear SIGTERM
    key = ReplicaKey(1, 1)
    launch(any_engine, spec(any_engine.ignores_term(key)))
    wait_log(any_engine, key, "deaf")

    # When it is terminated with a grace of one second
    any_engine.engine.terminate(key, grace_s=1, reason="preempt")
    stopping = wait_for(any_engine, key, lambda o: o.phase is EnginePhase.STOPPING)

    # Then it is stopping until it is gone, which takes SIGKILL
    assert stopping.ended_at is None
    seen = wait_ended(any_engine, key)
    assert seen.signal == 9
    assert seen.cause is EndCause.TERMINATED


def test_of_two_orders_to_end_the_earlier_end_holds(any_engine: Harness):
    # Given a deaf replica that has ten minutes to end
    key = ReplicaKey(1, 1)
    launch(any_engine, spec(any_engine.ignores_term(key)))
    wait_log(any_engine, key, "deaf")
    any_engine.engine.terminate(key, grace_s=600, reason="reclaim")
    first = wait_for(any_engine, key, lambda o: o.term_sent_at is not None)

    # When it is told again, with no time at all
    any_engine.engine.terminate(key, grace_s=0, reason="by_user")

    # Then it is gone, SIGTERM was sent once, and the first reason stands
    seen = wait_ended(any_engine, key)
    assert seen.term_sent_at == first.term_sent_at
    assert seen.stop_reason == "reclaim"


def test_terminating_what_is_not_there_is_no_error(any_engine: Harness):
    any_engine.engine.terminate(ReplicaKey(404, 1), grace_s=1, reason="by_user")
    key = launch(any_engine, spec(any_engine.exits(0)))
    wait_ended(any_engine, key)
    any_engine.engine.terminate(key, grace_s=1, reason="by_user")
    assert wait_ended(any_engine, key).cause is EndCause.EXITED


def test_a_service_runs_once_it_answers(any_engine: Harness):
    # When a service is launched
    key = launch(any_engine, spec(any_engine.serves(), service=service()))
    starting = find(any_engine, key)
    assert starting is not None
    assert not starting.ready

    # Then it is starting until it answers, and running, with its address, from then on
    seen = wait_for(any_engine, key, is_running)
    assert seen.ready
    assert seen.ready_at is not None
    assert seen.endpoint is not None
    assert seen.endpoint.port > 0


def test_two_services_have_two_addresses(any_engine: Harness):
    for replica in (1, 2):
        launch(any_engine, spec(any_engine.serves(), replica=replica, service=service()))
    places = {
        wait_for(any_engine, ReplicaKey(replica, 1), is_running).endpoint for replica in (1, 2)
    }
    assert len(places) == 2
    meeting = any_engine.engine.find_meeting_point("")
    assert meeting.port not in {place.port for place in places}


def test_a_service_that_never_answers_is_ended(any_engine: Harness):
    wanted = spec(any_engine.never_serves(), service=service(start_timeout_s=1))
    key = launch(any_engine, wanted)
    seen = wait_ended(any_engine, key)
    assert seen.cause is EndCause.START_TIMEOUT
    assert seen.ready_at is None


def test_the_output_is_kept_and_read_in_pieces(any_engine: Harness):
    # Given a replica that has printed twelve characters, three bytes each
    key = ReplicaKey(1, 1)
    launch(any_engine, spec(any_engine.prints(key, "訓練已從檢查點繼續執行中")))
    wait_log(any_engine, key, "執行中")

    # When the log is read from its begin, ten bytes at most a time
    read = any_engine.engine.read_log
    pieces, offset = [], 0
    while (piece := read(key, offset=offset, limit_bytes=12)).data:
        pieces.append(piece.text)
        offset = piece.next_offset

    # Then the pieces are the whole, and the end can be read alone
    assert "".join(pieces) == "訓練已從檢查點繼續執行中"
    assert read(key, offset=None, limit_bytes=9).text == "執行中"
    assert read(key, offset=0, limit_bytes=99).size_bytes == 36


def test_the_log_outlives_the_replica_and_can_be_dropped(any_engine: Harness):
    key = ReplicaKey(1, 1)
    launch(any_engine, spec(any_engine.prints(key, "epoch 21")))
    wait_log(any_engine, key, "epoch 21")
    any_engine.engine.terminate(key, grace_s=5, reason="by_user")
    wait_ended(any_engine, key)
    any_engine.engine.forget(key)
    text = any_engine.engine.read_log(key, offset=None, limit_bytes=99).text
    assert text.removesuffix("\n--- SIGTERM, by_user ---\n") == "epoch 21"
    any_engine.engine.delete_log(key)
    assert any_engine.engine.read_log(key, offset=None, limit_bytes=99).size_bytes == 0


def test_a_command_that_is_not_there_is_refused(any_engine: Harness):
    # An engine that can't know what an image holds says so as soon as it was tried
    if any_engine.knows_commands:
        with pytest.raises(LaunchRefused, match="no-such-command: no such command"):
            any_engine.engine.launch(spec(("no-such-command",)))
    else:
        key = launch(any_engine, spec(("no-such-command",)))
        seen = wait_ended(any_engine, key)
        assert seen.cause is EndCause.LAUNCH_FAILED
        assert "no-such-command" in seen.message
        any_engine.engine.forget(key)
    with pytest.raises(LaunchRefused, match="no command"):
        any_engine.engine.launch(spec((), attempt=2))
    assert any_engine.engine.observe() == ()


def test_the_inventory_names_what_is_virtual(any_engine: Harness):
    inventory = any_engine.inventory()
    assert inventory.cpu_milli >= 1000
    assert inventory.memory_mib > 0
    assert inventory.devices
    for device in inventory.devices:
        assert device.virtual == (device.model == "virtual")
        assert device.memory_mib > 0


def test_replicas_are_told_apart_by_attempt(any_engine: Harness):
    # Given a first attempt that failed
    first = launch(any_engine, spec(any_engine.exits(1), attempt=1))
    wait_ended(any_engine, first)

    # When the second is launched before the first is forgotten
    second = launch(any_engine, spec(any_engine.runs_on(), attempt=2))
    wait_for(any_engine, second, is_running)

    # Then both are told of, in order
    assert [seen.key for seen in any_engine.engine.observe()] == [first, second]
