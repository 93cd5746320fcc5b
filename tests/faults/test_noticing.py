"""A fault run is worth what it would notice: schedules by seed, double runs, lost steps, stepped clocks."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time

import pytest

from dashboard.management.faults import findings, notes
from dashboard.management.faults.clock import make_clock
from dashboard.management.faults.load import WORK, Sent, Told
from dashboard.management.faults.schedule import Kind, draw
from dashboard.management.faults.volume import small_volume
from tests.product import wait_until


def test_a_seed_is_a_schedule():
    assert draw(seed=7, seconds=1200) == draw(seed=7, seconds=1200)
    assert draw(seed=7, seconds=1200) != draw(seed=8, seconds=1200)


def test_a_run_that_is_long_enough_has_every_kind_and_keeps_its_time():
    faults = draw(seed=3, seconds=1200)
    assert {fault.kind for fault in faults} == set(Kind)
    assert faults[0].at_s > 0
    assert faults[-1].at_s < 1200
    assert all(before.at_s < after.at_s for before, after in itertools.pairwise(faults))


def start(tmp_path, name, *, replica, steps=4):
    environment = {
        **os.environ,
        "CHECKPOINT_DIR": str(tmp_path),
        "TIDEGATE_REPLICA": replica,
    }
    command = [sys.executable, str(WORK), "train", "--notes", str(tmp_path), "--name", name]
    return subprocess.Popen(
        [*command, "--steps", str(steps)], env=environment, stdout=subprocess.DEVNULL
    )


def test_the_work_notices_that_it_runs_twice_at_once(tmp_path):
    # Given one that runs
    first = start(tmp_path, "w1", replica="1-1", steps=1000)
    wait_until(lambda: notes.read_notes(tmp_path), within_s=20, what="it has begun")
    assert notes.is_running(tmp_path, "w1.0")
    # When another attempt of it starts beside it
    second = start(tmp_path, "w1", replica="2-1", steps=1)
    second.wait(timeout=20)
    first.kill()
    first.wait(timeout=20)
    # Then both is seen: that it ran twice, and afterwards that nobody runs
    assert list(notes.double_runs(notes.read_notes(tmp_path))) == [
        "w1.0: replica 2-1 began while another of it ran"
    ]
    assert not notes.is_running(tmp_path, "w1.0")


def test_one_that_goes_on_where_it_was_is_no_finding(tmp_path):
    first = start(tmp_path, "w1", replica="1-1", steps=1000)
    wait_until(
        lambda: any(note.what == "saved" for note in notes.read_notes(tmp_path).get("w1.0", ())),
        within_s=20,
        what="it has saved",
    )
    first.terminate()
    assert first.wait(timeout=20) == 143
    second = start(tmp_path, "w1", replica="1-2", steps=2)
    assert second.wait(timeout=20) == 0
    noted = notes.read_notes(tmp_path)
    assert not list(notes.double_runs(noted))
    assert not list(notes.lost_steps(noted))
    assert noted["w1.0"][-1].what == "done"


def write_notes(folder, work, *told):
    lines = [
        json.dumps({"at": float(at), "what": what, "replica": replica, "step": step})
        for at, (what, replica, step) in enumerate(told)
    ]
    (folder / f"{work}.77.notes").write_text("\n".join(lines) + "\n")


def test_a_start_that_comes_twice_and_steps_that_are_lost_are_seen(tmp_path):
    write_notes(
        tmp_path,
        "w1.0",
        ("begins", "5-1", 0),
        ("saved", "5-1", 9),
        ("begins", "5-1", 0),
        ("resumes", "5-1", 4),
    )
    noted = notes.read_notes(tmp_path)
    assert list(notes.double_runs(noted)) == ["w1.0: the start 5-1 came 2 times"]
    assert list(notes.lost_steps(noted)) == ["w1.0: replica 5-1 resumed from 4 of 9 saved"]


STATES = [
    # what the product says,       whether it was stopped, noted, what is found
    ("completed", False, "done", ""),
    ("completed", False, "saved", "w1: completed, but its notes do not say so"),
    ("failed", False, "saved", "w1: failed, and it never fails by itself"),
    ("stopped", True, "stops", ""),
    ("stopped", False, "stops", "w1: stopped, and nobody asked for it"),
    ("running", False, "saved", "w1: still running: no reason"),
    ("stopped", True, "none", ""),
]


@pytest.mark.parametrize(("phase", "was_stopped", "noted", "expected"), STATES)
def test_states_are_held_against_the_notes(tmp_path, phase, was_stopped, noted, expected):
    write_notes(tmp_path, "w1.0", ("begins", "5-1", 0), (noted, "5-1", 3))
    told = Told()
    told.sent["w1"] = Sent(id=4, name="w1", ranks=1, steps=3, stopped=was_stopped)
    rows = {"w1": {"id": 4, "name": "w1", "phase": phase, "reason": None}}
    found = [
        *findings.find_missing(told, rows),
        *findings.find_false_states(tmp_path, told, rows, notes.read_notes(tmp_path)),
    ]
    assert found == ([expected] if expected else [])


def test_what_was_accepted_and_is_not_there_is_lost_and_what_nobody_sent_is_named(tmp_path):
    told = Told()
    told.sent["w1"] = Sent(id=4, name="w1", ranks=1, steps=3)
    rows = {"w2": {"id": 9, "name": "w2", "phase": "completed", "reason": None}}
    assert list(findings.find_missing(told, rows)) == [
        "w1: accepted as 4, and not there",
        "w2: there, and nobody was told that it was accepted",
    ]
    # But not where the answer never came: it may be there, or not
    told.unanswered.add("w2")
    assert list(findings.find_missing(told, rows)) == ["w1: accepted as 4, and not there"]


def test_a_stepped_clock_moves_the_wall_and_leaves_the_clock_that_counts_from_boot(tmp_path):
    clock = make_clock(tmp_path)
    if clock is None:
        pytest.skip("no C compiler builds the library that steps the clock")
    look = (
        "import time, datetime; input(); print(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME));"
        "print(datetime.datetime.now(datetime.UTC).timestamp() - time.monotonic())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", look],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # When it steps while the process runs
    clock.step_to(-5000)
    said, _ = process.communicate("\n", timeout=20)
    wall, told = map(float, said.split())
    assert abs(wall - (time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) + 5000) < 1
    assert abs(told - (time.time() - time.monotonic()) + 5000) < 1


def test_a_volume_is_filled_to_the_brim_and_given_back(tmp_path):
    # Given a file system in memory, where one may be mounted
    with small_volume(tmp_path / "data") as volume:
        if not volume.can_fill:
            pytest.skip("no file system may be mounted here")
        volume.fill()
        with pytest.raises(OSError, match="No space left"):
            (volume.folder / "more").write_bytes(b"x" * 8192)
        volume.give_back()
        (volume.folder / "more").write_bytes(b"x" * 8192)
