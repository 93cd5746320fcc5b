"""The granted memory is a wall: who takes more is reported and stopped, neighbours never notice."""

from __future__ import annotations

from scheduler.engines.base import EndCause, EnginePhase
from tests.engines.harness import (
    LocalHarness,
    find,
    launch,
    slice_of,
    spec,
    wait_ended,
    wait_for,
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
