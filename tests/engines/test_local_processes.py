"""The local engine and the process table: whole groups end, nothing is started twice or lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scheduler.engines import records
from scheduler.engines.base import EndCause, EnginePhase, ReplicaKey
from scheduler.engines.local import LocalEngine
from scheduler.engines.shim.tree import find_marked
from tests.engines.harness import (
    LocalHarness,
    command_line,
    find,
    is_running,
    launch,
    spec,
    wait_ended,
    wait_for,
    wait_log,
    wait_true,
)

ROOT = Path(__file__).resolve().parents[2]

#: A front with a child in its group, one in a session of its own, and one whose parent has ended.
FAMILY = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf])
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", deaf])
    os._exit(0)
os.wait()
time.sleep(0.5)
print("family complete", flush=True)
time.sleep(600)
"""


def marked(local: LocalHarness) -> set[int]:
    """Return all processes of the engine under test, by the mark in their environment."""
    engine_id = (local.data_dir / "engine" / "id").read_text()
    return {stat.pid for stat in find_marked({"TIDEGATE_ENGINE": engine_id})}


def launch_family(local: LocalHarness) -> ReplicaKey:
    key = launch(local, spec(("python", "-c", FAMILY), grace_s=1))
    wait_log(local, key, "family complete")
    assert len(marked(local)) == 4
    return key


# -- B24: the parent is killed, the children keep the GPU --------------------------------------


def test_stop_ends_the_whole_family(local: LocalHarness):
    # Given a front with children in and out of its group, all deaf to SIGTERM
    key = launch_family(local)

    # When Stop is pressed
    local.engine.terminate(key, grace_s=1, reason="by_user")

    # Then the replica is not over before no process of it is left
    wait_ended(local, key)
    assert marked(local) == set()


def test_children_do_not_outlive_a_front_that_was_killed(local: LocalHarness):
    # Given the same family
    key = launch_family(local)
    front = find(local, key).pid

    # When the front gets SIGKILL from outside
    os.kill(front, signal.SIGKILL)

    # Then the replica is stopping, not ended, for as long as its children live
    stopping = wait_for(local, key, lambda seen: seen.phase is EnginePhase.STOPPING)
    assert stopping.ended_at is None
    assert len(marked(local)) == 3

    # And they are ended; how the front ended is kept
    seen = wait_ended(local, key)
    assert marked(local) == set()
    assert (seen.cause, seen.signal) == (EndCause.EXITED, signal.SIGKILL)


def test_a_replica_is_found_again_when_whoever_launched_it_was_killed(local: LocalHarness):
    # Given a control plane, in a process of its own, that launches and is killed
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from scheduler.engines.local import LocalEngine\n"
        "from tests.engines.harness import spec\n"
        "LocalEngine(data_dir=Path(sys.argv[1])).launch(spec(('sleep', '600')))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(local.data_dir)], cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL

    # When another takes over
    key = ReplicaKey(1, 1)
    first = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)

    # Then the process is its own, not started twice, and can be ended
    launch(local, spec(("sleep", "600")))
    assert len(marked(local)) == 1
    local.engine.terminate(key, grace_s=5, reason="by_user")
    seen = wait_ended(local, key)
    assert (seen.pid, seen.signal) == (first.pid, signal.SIGTERM)


def test_the_supervisor_belongs_to_nobody(local: LocalHarness):
    key = launch(local, spec(("sleep", "600")))
    seen = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)
    assert os.getpgid(seen.supervisor_pid) != os.getpgid(0)
    assert os.getsid(seen.supervisor_pid) != os.getsid(0)
    assert os.getpgid(seen.pid) == seen.pid
    parent = Path(f"/proc/{seen.supervisor_pid}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) != os.getpid()


def test_a_listener_hears_of_an_end_at_once(local: LocalHarness):
    # Given a listener, and a replica that has just started
    assert not local.engine.wait_for_change(timeout_s=0)
    key = launch(local, spec(("sh", "-c", "echo begun; exec sleep 600")))
    wait_log(local, key, "begun")
    while local.engine.wait_for_change(timeout_s=1):
        pass

    # When it is killed
    os.kill(find(local, key).pid, signal.SIGKILL)

    # Then the listener hears it, and what it sees is the end or the way to it
    assert local.engine.wait_for_change(timeout_s=30)
    assert find(local, key).phase in (EnginePhase.STOPPING, EnginePhase.EXITED)


# -- the supervisor itself is killed ----------------------------------------------------------


def test_a_replica_whose_supervisor_was_killed_runs_on_and_can_be_ended(local: LocalHarness):
    # Given a replica that counts
    count = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"
    key = launch(local, spec(("sh", "-c", count)))
    wait_log(local, key, "line 3\n")
    before = find(local, key)

    # When its supervisor gets SIGKILL
    os.kill(before.supervisor_pid, signal.SIGKILL)
    wait_true(lambda: not is_running(before.supervisor_pid), what="the supervisor's end")

    # Then another watches the same process, whose output goes on without a gap
    adopted = wait_for(local, key, lambda seen: seen.adopted)
    assert adopted.pid == before.pid
    assert is_running(before.pid)
    last = int(local.engine.read_log(key, offset=None, limit_bytes=8).text.split()[-1] or 0)
    text = wait_log(local, key, f"line {last + 5}\n")
    numbers = [int(line.split()[1]) for line in text.splitlines() if line.startswith("line ")]
    assert numbers[: last + 5] == list(range(1, last + 6))

    # And it can be ended
    local.engine.terminate(key, grace_s=5, reason="preempt")
    wait_ended(local, key)
    assert not is_running(before.pid)


def test_an_end_that_nobody_saw_is_never_made_up(local: LocalHarness):
    # Given a replica that will exit with 7, whose supervisor was killed
    wait = "while [ ! -e $HOME/go ]; do sleep 0.05; done; exit 7"
    key = launch(local, spec(("sh", "-c", wait)))
    before = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)
    os.kill(before.supervisor_pid, signal.SIGKILL)
    wait_for(local, key, lambda seen: seen.adopted)

    # When it exits
    (local.data_dir / "engine" / "storage" / "workload-1" / "work" / "go").touch()

    # Then it has ended with 7 where the kernel tells, and is lost where it does not
    seen = wait_ended(local, key)
    assert (seen.phase, seen.exit_code) in [(EnginePhase.EXITED, 7), (EnginePhase.LOST, None)]


def test_a_family_whose_supervisor_was_killed_is_ended_whole(local: LocalHarness):
    # Given a family, of which one is in a session of its own and one has lost its parent
    key = launch_family(local)
    supervisor = find(local, key).supervisor_pid

    # When the supervisor is killed and Stop is pressed before anyone has looked
    os.kill(supervisor, signal.SIGKILL)
    wait_true(lambda: not is_running(supervisor), what="the supervisor's end")
    local.engine.terminate(key, grace_s=1, reason="by_user")

    # Then all of them go, found by what they carry in their environment
    wait_ended(local, key)
    assert marked(local) == set()


def test_a_replica_and_supervisor_killed_together_are_lost(local: LocalHarness):
    # Given a running replica
    key = launch(local, spec(("sleep", "600")))
    before = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)

    # When both are killed
    os.kill(before.supervisor_pid, signal.SIGKILL)
    os.kill(before.pid, signal.SIGKILL)

    # Then it is lost, and ended at the last sure sign of life
    seen = wait_ended(local, key)
    assert (seen.phase, seen.cause) == (EnginePhase.LOST, EndCause.LOST)
    assert before.started_at <= seen.ended_at <= seen.last_seen_at


# -- B26, B28: at most once -------------------------------------------------------------------


def test_launched_by_many_at_once_it_runs_once(local: LocalHarness):
    # Given four control planes that launch the same key in the same moment
    program = (
        "import os, sys, time; from pathlib import Path\n"
        "from scheduler.engines.local import LocalEngine\n"
        "from tests.engines.harness import spec\n"
        "engine = LocalEngine(data_dir=Path(sys.argv[1]))\n"
        "Path(sys.argv[1], f'here-{os.getpid()}').touch()\n"
        "while not Path(sys.argv[2]).exists(): time.sleep(0.001)\n"
        "engine.launch(spec(('sh', '-c', 'echo begun; exec sleep 600')))\n"
    )
    go = local.data_dir / "go"
    planes = [
        subprocess.Popen([sys.executable, "-c", program, str(local.data_dir), str(go)], cwd=ROOT)
        for _ in range(4)
    ]
    wait_true(lambda: len(list(local.data_dir.glob("here-*"))) == 4, what="all four")
    go.touch()
    assert [plane.wait(timeout=60) for plane in planes] == [0] * 4

    # Then one process runs, and one only ever began
    key = ReplicaKey(1, 1)
    text = wait_log(local, key, "begun")
    time.sleep(0.5)
    assert text == "begun\n"
    assert len(marked(local)) == 1


def test_a_supervisor_started_twice_leaves_at_once(local: LocalHarness):
    # Given a running replica
    key = launch(local, spec(("sh", "-c", "echo begun; exec sleep 600")))
    wait_log(local, key, "begun")
    first = find(local, key)

    # When a second supervisor is started for it, as after a crash between two steps
    local.engine._start_supervisor(key)
    time.sleep(3)

    # Then the first still watches, and nothing began twice
    assert find(local, key).supervisor_pid == first.supervisor_pid
    assert local.engine.read_log(key, offset=0, limit_bytes=99).text == "begun\n"
    assert len(marked(local)) == 1


def test_a_launch_that_broke_off_before_the_supervisor_is_taken_up(local: LocalHarness):
    # Given an order that was written down by a control plane which then died
    wanted = spec(("sleep", "600"))
    assert local.engine._write_order(wanted)

    # When another looks
    starting = find(local, wanted.key)

    # Then it counts as starting, and starts
    assert starting.phase is EnginePhase.STARTING
    wait_for(local, wanted.key, lambda seen: seen.phase is EnginePhase.RUNNING)


def test_ended_before_it_started_it_never_starts(local: LocalHarness):
    # Given an order that nobody has taken up yet
    wanted = spec(("sh", "-c", "echo begun; exec sleep 600"))
    local.engine._write_order(wanted)

    # When it is withdrawn
    local.engine.terminate(wanted.key, grace_s=30, reason="by_user")

    # Then it has ended, and never ran
    seen = wait_ended(local, wanted.key)
    assert (seen.cause, seen.exit_code, seen.signal) == (EndCause.TERMINATED, None, None)
    assert local.engine.read_log(wanted.key, offset=0, limit_bytes=99).text == ""


# -- B27: the recorded pid belongs to somebody else now ----------------------------------------


@pytest.mark.parametrize("difference", ["another boot", "a later start"])
def test_no_signal_goes_to_a_stranger(local: LocalHarness, difference: str):
    # Given a replica whose record names the number of a program that is not ours
    key = launch(local, spec(("sleep", "600")))
    before = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)
    os.kill(before.supervisor_pid, signal.SIGKILL)
    os.kill(before.pid, signal.SIGKILL)
    wait_true(lambda: not is_running(before.pid), what="its end")
    with subprocess.Popen(["sleep", "600"]) as stranger:
        paths = records.Paths(str(local.data_dir / "engine" / "replicas" / str(key)))
        state = records.find_state(paths)
        assert state is not None
        assert state["process"] is not None
        _, start_ticks, boot_id = state["process"]
        if difference == "another boot":
            boot_id = "00000000-0000-0000-0000-000000000000"
        state["process"] = (stranger.pid, start_ticks, boot_id)
        records.write_json(paths.state, state)

        # When the control plane starts, and Stop is pressed
        local.restart()
        local.engine.terminate(key, grace_s=0, reason="by_user")
        seen = wait_ended(local, key)
        local.engine.terminate(key, grace_s=0, reason="by_user")

        # Then the replica is lost, and the stranger has got nothing
        assert seen.phase is EnginePhase.LOST
        assert stranger.poll() is None
        stranger.kill()


# -- B28: a live process with our mark and no record ------------------------------------------


def test_an_orphan_is_listed_and_ended(local: LocalHarness):
    # Given a process with this engine's mark that no record speaks of
    engine_id = (local.data_dir / "engine" / "id").read_text()
    env = {"TIDEGATE_ENGINE": engine_id, "TIDEGATE_REPLICA": "77-3", "PATH": os.environ["PATH"]}
    foreign = {**env, "TIDEGATE_ENGINE": "another"}
    with (
        subprocess.Popen(["sleep", "600"], env=env) as lost,
        subprocess.Popen(["sleep", "600"], env=foreign) as theirs,
    ):
        wait_true(lambda: "sleep" in command_line(lost.pid), what="its start")
        launch(local, spec(("sleep", "600")))

        # When orphans are listed
        (orphan,) = local.engine.orphans()

        # Then it is the one, and ending it touches no other
        assert (orphan.key, orphan.pid) == (ReplicaKey(77, 3), lost.pid)
        local.engine.end_orphan(orphan)
        assert lost.wait(timeout=10) == -signal.SIGKILL
        assert theirs.poll() is None
        assert local.engine.orphans() == ()
        theirs.kill()


def test_two_engines_do_not_see_each_others_replicas(local: LocalHarness, tmp_path: Path):
    other = LocalEngine(data_dir=tmp_path / "other")
    launch(local, spec(("sleep", "600")))
    assert other.observe() == ()
    assert other.orphans() == ()


def test_removing_the_data_ends_what_ran_there(local: LocalHarness):
    # Given a replica whose files are removed under it, so that nobody could end it later
    key = launch(local, spec(("sleep", "600")))
    seen = wait_for(local, key, lambda seen: seen.phase is EnginePhase.RUNNING)
    directory = local.data_dir / "engine" / "replicas" / str(key)
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()

    # Then it ends, and its supervisor with it
    wait_true(lambda: not is_running(seen.pid), what="the replica's end")
    wait_true(lambda: not is_running(seen.supervisor_pid), what="the supervisor's end")
    assert not is_running(seen.pid)
    assert not is_running(seen.supervisor_pid)


#: A front that leaves behind what has neither its environment, its session nor a parent of the family.
STRAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("stray", os.getpid(), flush=True)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.mark.parametrize("front_dies_too", [False, True])
def test_what_nothing_leads_to_is_not_lost_with_its_supervisor(
    local: LocalHarness, front_dies_too: bool
):
    # Given a process of a replica that has dropped environment, session and parents, noted by now
    key = launch(local, spec(("python", "-c", STRAY), grace_s=1))
    stray = int(wait_log(local, key, "stray").split("stray")[1].split()[0])
    paths = records.Paths(str(local.data_dir / "engine" / "replicas" / str(key)))
    wait_true(lambda: stray in noted_strays(paths), what="that it is noted")
    before = find(local, key)

    # When the supervisor is killed, alone or with the first process
    os.kill(before.supervisor_pid, signal.SIGKILL)
    if front_dies_too:
        os.kill(before.pid, signal.SIGKILL)

    # Then the replica has not ended before the stray has
    if not front_dies_too:
        wait_for(local, key, lambda seen: seen.adopted)
        local.engine.terminate(key, grace_s=1, reason="by_user")
    wait_ended(local, key)
    assert not is_running(stray)


def noted_strays(paths: records.Paths) -> list[int]:
    state = records.find_state(paths)
    return [] if state is None else [pid for pid, _, _ in state.get("strays", [])]
