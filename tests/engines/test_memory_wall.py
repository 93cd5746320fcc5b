"""The granted memory is a wall: who takes more is reported and stopped, neighbours never notice."""

from __future__ import annotations

from scheduler.engines.base import DeviceGrant, EndCause, EnginePhase
from tests.engines.harness import (
    LocalHarness,
    find,
    launch,
    slice_of,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)

HOG = "held = [b'x' * 2**20 for _ in range(120)]; print('held', flush=True); import time; time.sleep(600)"
#: A parent whose 60 MiB are shared with three children: 60 in all, and not 240.
SHARED = (
    "import os, time; held = b'x' * (60 * 2**20)\n"
    "for _ in range(3):\n"
    "    if os.fork() == 0: time.sleep(600)\n"
    "print('forked', flush=True); time.sleep(600)"
)


def test_the_one_that_takes_more_is_stopped_and_its_neighbour_goes_on(local: LocalHarness):
    # Given a neighbour on the same card
    neighbour = launch(local, spec(("sleep", "600"), replica=2))
    before = wait_for(local, neighbour, lambda seen: seen.phase is EnginePhase.RUNNING)

    # When a replica takes 120 MiB of a slice of 64
    key = launch(local, spec(("python", "-c", HOG), devices=slice_of(64)))

    # Then it is ended for that reason, with the figures
    seen = wait_ended(local, key)
    assert (seen.cause, seen.over_memory) == (EndCause.OVER_MEMORY, True)
    assert seen.memory_peak_mib > 64
    assert seen.message.endswith("MiB of a slice of 64 MiB")

    # And the neighbour is the same process as before
    after = find(local, neighbour)
    assert (after.phase, after.pid) == (EnginePhase.RUNNING, before.pid)
    assert not after.over_memory


def test_one_that_ignores_sigterm_gains_nothing_by_it(local: LocalHarness):
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + HOG
    key = launch(local, spec(("python", "-c", deaf), devices=slice_of(64), grace_s=300))
    seen = wait_ended(local, key)
    assert (seen.cause, seen.signal) == (EndCause.OVER_MEMORY, 9)


def test_with_the_rule_off_it_is_reported_only(local: LocalHarness):
    key = launch(local, spec(("python", "-c", HOG), devices=slice_of(64), memory_wall=False))
    seen = wait_for(local, key, lambda seen: seen.over_memory)
    assert seen.phase is EnginePhase.RUNNING


def test_within_the_slice_nothing_happens(local: LocalHarness):
    key = launch(local, spec(("python", "-c", HOG), devices=slice_of(512)))
    seen = wait_for(local, key, lambda seen: (seen.memory_peak_mib or 0) > 110)
    assert (seen.phase, seen.over_memory) == (EnginePhase.RUNNING, False)


def test_what_processes_share_counts_once(local: LocalHarness):
    # Given four processes that hold the same 60 MiB
    key = launch(local, spec(("python", "-c", SHARED), devices=slice_of(130)))

    # When the wall has been looked at with all of them there
    seen = wait_for(local, key, lambda seen: (seen.memory_peak_mib or 0) > 60)
    for _ in range(40):
        local.pass_time()
        seen = find(local, key)

    # Then they are within a slice of 130, though their plain sum is far beyond
    assert (seen.phase, seen.over_memory) == (EnginePhase.RUNNING, False)


def real_card(memory_mib: int) -> tuple[DeviceGrant, ...]:
    return (
        DeviceGrant(index=0, uuid="GPU-0", request_mgpu=90, memory_mib=memory_mib, virtual=False),
    )


def test_on_a_real_card_the_cards_own_figures_count(local: LocalHarness):
    # Given two replicas on a card that tells which process holds how much of it
    mine = launch(local, spec(("sleep", "600"), devices=real_card(4146)))
    theirs = launch(local, spec(("sleep", "600"), replica=2, devices=real_card(4146)))
    pids = {key: wait_for(local, key, lambda seen: seen.ready).pid for key in (mine, theirs)}
    local.device_memory = {pids[mine]: 4146, pids[theirs]: 4146, 1: 30_000}
    assert not any(seen.over_memory for seen in local.engine.observe())

    # When one takes a MiB more than its slice
    local.device_memory = {pids[mine]: 4147, pids[theirs]: 4146}

    # Then that one is stopped, for that reason, and the other is not
    seen = wait_ended(local, mine)
    assert (seen.cause, seen.over_memory) == (EndCause.OVER_MEMORY, True)
    assert seen.message == "used 4147 MiB of a slice of 4146 MiB"
    assert find(local, theirs).phase is EnginePhase.RUNNING


def test_on_a_real_card_resident_memory_is_no_matter(local: LocalHarness):
    key = launch(local, spec(("python", "-c", HOG), devices=real_card(64)))
    wait_log(local, key, "held")
    for _ in range(40):
        local.pass_time()
        seen = find(local, key)
    assert (seen.phase, seen.over_memory) == (EnginePhase.RUNNING, False)
