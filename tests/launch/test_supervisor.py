"""The supervisor by itself: what it restarts, what it ends, and what it never touches."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from dashboard.launch.processes import Identity, start_of
from tests.product import ROOT, wait_until


class Run:
    """A supervisor in a process of its own, and what it has said so far."""

    def __init__(self, folder, **variables):
        self.folder = folder
        self.output = folder / "out"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "tests.launch.supervised", str(folder)],
                cwd=ROOT,
                env={**os.environ, **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.wait_for("ready")

    def wait_for(self, text):
        wait_until(lambda: text in self.said(), within_s=20, what=text)

    def said(self):
        return self.output.read_text()

    def child(self, name):
        """Return who bears the name now."""
        pid = int(re.findall(rf"'{name}': (\d+)", self.said())[-1])
        return Identity(pid=pid, started=start_of(pid))

    def workload(self):
        return self.workloads()[-1]

    def workloads(self):
        pids = map(int, (self.folder / "workloads").read_text().split())
        return [Identity(pid=pid, started=start_of(pid)) for pid in pids]


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    _end(run)


def _end(run):
    for _ in range(2):
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
    run.process.wait(timeout=20)
    for workload in run.workloads():
        if workload.is_alive():
            os.kill(workload.pid, signal.SIGKILL)


def test_a_workload_that_falls_to_it_is_never_ended(run):
    # Given a worker that left a workload's process behind, and is then killed with its group
    workload = run.workload()
    os.kill(run.child("worker").pid, signal.SIGKILL)
    run.wait_for("worker ended (signal SIGKILL)")
    # When the supervisor, whose child it now is, ends
    run.process.send_signal(signal.SIGINT)
    run.process.wait(timeout=20)
    # Then the workload is still there
    assert workload.is_alive()


def test_a_workload_that_ends_is_waited_for_and_leaves_no_zombie(run):
    workload = run.workload()
    os.kill(run.child("worker").pid, signal.SIGKILL)
    run.wait_for("worker ended (signal SIGKILL)")

    os.kill(workload.pid, signal.SIGKILL)

    # Nobody but its parent can make the number free again
    wait_until(lambda: not _is_listed(workload.pid), within_s=10, what="its number is free")
    assert not workload.is_alive()


def test_who_dies_at_once_again_is_started_after_a_longer_pause(run):
    for _ in range(2):
        victim = run.child("worker")
        os.kill(victim.pid, signal.SIGKILL)
        _wait_for_another(run, than=victim)

    pauses = re.findall(r"again in ([\d.]+) s", run.said())
    assert pauses == ["0.5", "1"]


def test_the_end_is_asked_for_and_after_a_grace_enforced(run):
    worker, stubborn = run.child("worker"), run.child("web")

    run.process.send_signal(signal.SIGTERM)
    run.process.wait(timeout=20)

    # The worker was let finish, the other one, which took no notice, was not asked for ever
    assert (run.folder / "ends").read_text() == "worker\n"
    assert not worker.is_alive()
    assert not stubborn.is_alive()


def test_a_second_ctrl_c_does_not_wait_for_the_grace(tmp_path):
    # Given a process that takes no notice and would be given an hour
    run = Run(tmp_path, STUBBORN_S="3600")
    run.process.send_signal(signal.SIGINT)
    wait_until(lambda: (tmp_path / "ends").exists(), within_s=20, what="the worker's end")
    # When the person presses Ctrl-C again
    run.process.send_signal(signal.SIGINT)
    # Then it is over
    assert run.process.wait(timeout=20) == 0
    assert not run.child("web").is_alive()
    _end(run)


def test_its_own_death_takes_its_processes_along_and_no_workload(run):
    workload, stubborn = run.workload(), run.child("web")
    worker = run.child("worker")

    run.process.kill()
    run.process.wait()

    wait_until(lambda: not worker.is_alive(), within_s=10, what="the worker's end")
    assert workload.is_alive()
    os.kill(stubborn.pid, signal.SIGKILL)


def _wait_for_another(run, *, than):
    wait_until(lambda: run.child("worker").pid != than.pid, within_s=20, what="another worker")


def _is_listed(pid):
    return os.path.exists(f"/proc/{pid}")
