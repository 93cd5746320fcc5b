"""Agent and supervisor both killed: the work is adopted, or ended, before its device is lent elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.launch.install import ROOT
from scheduler.engines import leases, records, warden
from scheduler.engines.base import ReplicaKey
from scheduler.engines.local import LocalEngine
from scheduler.engines.records import Paths
from tests.engines.harness import is_running, spec, wait_true

#: A node's agent in a process of its own, which launches deaf work and has no further part in it.
AGENT = """
import sys, time
from tests.engines.harness import spec
from scheduler.remote.agent import NodeAgent, Post
post = Post(
    node_name="n1", host="127.0.0.1", data_dir=sys.argv[1], shared_dir=sys.argv[1] + "/shared",
    virtual_devices=1, lease_s=int(sys.argv[2]), owner="tests",
)
agent = NodeAgent(post, in_touch=lambda: True)
agent.launch(spec(("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"), grace_s=600))
while True:
    time.sleep(60)
"""
KEY = ReplicaKey(1, 1)


class Node:
    """One node's folder, its agent's process, and what the files tell of the replica."""

    def __init__(self, folder: Path, *, lease_s: int) -> None:
        self.folder = folder
        self.agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(folder), str(lease_s)], cwd=ROOT
        )
        self._paths = Paths(str(folder / "engine" / "replicas" / str(KEY)))
        wait_true(lambda: self.state() is not None and self.state()["process"], what="its process")
        self.first = self.state()

    def state(self):
        return records.find_state(self._paths)

    def pid(self):
        return self.first["process"][0]

    def kill_both(self) -> None:
        """End agent and supervisor outright; neither comes back by itself."""
        self.agent.kill()
        self.agent.wait()
        os.kill(self.first["supervisor"][0], signal.SIGKILL)

    def has_another_supervisor(self) -> bool:
        pid = self.state()["supervisor"][0]
        return pid != self.first["supervisor"][0] and is_running(pid)

    def clean_up(self) -> None:
        self.agent.kill()
        self.agent.wait()
        engine = LocalEngine(data_dir=self.folder)
        engine.terminate(KEY, grace_s=0, reason="test over")
        wait_true(lambda: engine.observe()[0].ended_at is not None, what="the end of the work")


@pytest.fixture
def make_node(tmp_path: Path):
    made = []

    def make(*, lease_s: int) -> Node:
        made.append(Node(tmp_path, lease_s=lease_s))
        return made[-1]

    yield make
    for node in made:
        node.clean_up()


def test_work_whose_agent_and_supervisor_were_killed_is_adopted(make_node):
    # Given work on a node that is in touch
    node = make_node(lease_s=300)

    # When agent and supervisor are killed at once
    node.kill_both()

    # Then another supervisor watches the same process, though no agent is there
    wait_true(node.has_another_supervisor, what="another supervisor")
    assert node.state()["adopted"]
    assert is_running(node.pid())


def test_and_ends_where_the_node_stays_out_of_touch(make_node):
    # Given deaf work with a long grace on a node whose lease is over soon
    node = make_node(lease_s=4)

    # When agent and supervisor are killed at once, and nobody renews the lease any more
    node.kill_both()

    # Then it ends by itself, and is lost
    wait_true(lambda: node.state()["ended_at_s"] is not None, what="its end")
    assert not is_running(node.pid())
    assert (node.state()["phase"], node.state()["stop_reason"]) == ("lost", "out_of_touch")


def test_a_warden_that_was_killed_is_replaced_and_one_with_nothing_to_guard_leaves(tmp_path: Path):
    # Given a warden of a folder whose lease is fresh
    lease = str(tmp_path / "lease")
    engine = LocalEngine(data_dir=tmp_path)
    leases.renew(lease, in_touch_at_s=leases.seconds_since_boot())

    def is_there() -> bool:
        lock = records.try_lock(str(tmp_path / "warden.lock"))
        if lock is not None:
            os.close(lock)
        return lock is None

    def ensure() -> None:
        warden.ensure(tmp_path, lease=lease, lease_s=300)

    ensure()
    wait_true(is_there, what="a warden")
    # When it is asked for again, then there is one; and one that was killed is started again
    (first,) = wardens(tmp_path)
    ensure()
    assert wardens(tmp_path) == [first]
    os.kill(first, signal.SIGKILL)
    wait_true(lambda: not is_there(), what="its end")
    ensure()
    wait_true(lambda: is_there() and wardens(tmp_path) != [first], what="another")

    # And with work it stays also when the lease is over; without, it leaves
    engine.launch(spec(("sleep", "600")))
    leases.renew(lease, in_touch_at_s=leases.seconds_since_boot() - 1000)
    wait_true(lambda: warden.look(engine, unwatched_before=frozenset())[0], what="work")
    assert is_there()
    engine.terminate(KEY, grace_s=0, reason="test over")
    wait_true(lambda: not wardens(tmp_path), what="its end")
    assert engine.observe()[0].ended_at is not None


def wardens(folder: Path) -> list[int]:
    """Return the pids of the wardens of a folder."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                words = (
                    Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")
                )
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(folder) in words and any("warden" in word for word in words):
                found.append(int(name))
    return found
