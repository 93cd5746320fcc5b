"""The Ray engine over agents of this process: nodes that answer, fall silent, are lost, come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.engines import leases
from scheduler.engines.base import (
    EngineError,
    EnginePhase,
    EngineUnreachable,
    ReplicaKey,
    Standing,
)
from scheduler.remote.agent import NodeAgent, Post
from scheduler.remote.engine import RayEngine, name_on
from scheduler.remote.sampler import RemoteSampler
from scheduler.telemetry.base import SampleTarget
from tests.engines.harness import spec, wait_true
from tests.remote.direct import DirectLink


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def link(tmp_path: Path):
    link = DirectLink(tmp_path, "n1", "n2")
    yield link
    link.deaf.clear()
    looks = [(agent, agent.look().observations) for agent in link.agents.values()]
    for agent, seen in looks:
        for one in seen:
            agent.terminate(one.key, 0, "test over")
    wait_true(
        lambda: all(one.ended_at for agent, _ in looks for one in agent.look().observations),
        what="the end of all work",
    )


@pytest.fixture
def engine(link, clock):
    engine = RayEngine(link=link, lease_s=30, monotonic=clock)
    engine.observe()
    return engine


def targets_of(engine):
    return tuple(
        SampleTarget(
            replica_id=seen.key.replica_id,
            attempt=1,
            pid=seen.pid,
            supervisor_pid=seen.supervisor_pid,
            request_mgpu=90,
        )
        for seen in engine.observe()
    )


def seen_of(engine, key):
    return next((seen for seen in engine.observe() if seen.key == key), None)


def test_each_replica_runs_on_its_own_node(engine, link):
    # Given one replica for each of two nodes
    for replica, node in ((1, "n1"), (2, "n2")):
        engine.launch(spec(("sleep", "600"), replica=replica, node_name=node))

    # When the engine looks
    found = {seen.key.replica_id: seen.node_name for seen in engine.observe()}

    # Then each is on the node that was chosen for it, and nowhere else
    assert found == {1: "n1", 2: "n2"}
    assert [seen.key.replica_id for seen in link.agents["n2"].look().observations] == [2]


def test_a_scratch_node_is_carried_by_the_machine_that_its_name_says(engine, link):
    # Given a node of a scratch pool on n2, with devices of its own
    name = name_on("card-ab12", machine="n2")
    assert name == "card-ab12@n2"
    # When a replica is launched there
    engine.launch(spec(("sh", "-c", "echo here; exec sleep 600"), node_name=name))
    # Then that machine runs it, and stands for the node: while it answers, and when it does not
    key = ReplicaKey(1, 1)
    wait_true(lambda: seen_of(engine, key).pid is not None, what="its pid")
    assert [seen.key for seen in link.agents["n2"].look().observations] == [key]
    wait_true(
        lambda: "here" in engine.read_log(key, offset=0, limit_bytes=99).text, what="its output"
    )
    assert engine.standing(name) is Standing.ANSWERS
    link.deaf.add("n2")
    engine.observe()
    assert engine.standing(name) is Standing.SILENT


def test_what_joined_tells_its_devices(engine):
    joined = engine.joined_nodes()
    assert [(node.name, node.pool_name) for node in joined] == [("n1", "main"), ("n2", "main")]
    assert [len(node.inventory.devices) for node in joined] == [2, 2]


def test_a_node_that_does_not_answer_is_silent_for_as_long_as_the_head_calls_it_alive(
    engine, link, clock
):
    # Given a replica on n2, which then stops answering
    engine.launch(spec(("sleep", "600"), node_name="n2"))
    link.deaf.add("n2")

    # When the engine looks, now and an hour later
    assert engine.observe() == ()
    clock.now_s += 3600
    engine.observe()

    # Then nothing is concluded of n2: its work may go on
    assert engine.standing("n1") is Standing.ANSWERS
    assert engine.standing("n2") is Standing.SILENT
    with pytest.raises(EngineUnreachable):
        engine.terminate(ReplicaKey(1, 1), grace_s=1, reason="by_user")


def test_a_dead_node_is_gone_only_when_its_lease_is_over_for_certain(engine, link, clock):
    # Given a node that the head calls dead
    link.alive.discard("n2")
    engine.observe()
    assert engine.standing("n2") is Standing.SILENT

    # When the lease of 30 s, the grace of 10 s and the margin of 5 s have just not passed
    clock.now_s += 45
    engine.observe()
    assert engine.standing("n2") is Standing.SILENT

    # Then a moment later it is gone
    clock.now_s += 1
    engine.observe()
    assert engine.standing("n2") is Standing.GONE


def test_a_node_of_a_former_head_counts_from_the_first_question(engine, clock):
    assert engine.standing("n9") is Standing.SILENT
    clock.now_s += 46
    assert engine.standing("n9") is Standing.GONE


def test_a_node_that_comes_back_in_time_goes_on_as_if_nothing_had_been(engine, link, clock):
    # Given a replica on n2, whose node's processes end for a moment
    engine.launch(spec(("sleep", "600"), node_name="n2"))
    wait_true(lambda: seen_of(engine, ReplicaKey(1, 1)).pid is not None, what="its pid")
    before = seen_of(engine, ReplicaKey(1, 1))
    link.alive.discard("n2")
    engine.observe()
    clock.now_s += 20

    # When it is back, with a new agent on the same folder
    link.start("n2")

    # Then it is the same process, and the clock of its end is put back
    after = seen_of(engine, ReplicaKey(1, 1))
    assert after.pid == before.pid
    assert engine.standing("n2") is Standing.ANSWERS
    link.alive.discard("n2")
    engine.observe()
    clock.now_s += 30
    assert engine.standing("n2") is Standing.SILENT


def test_after_a_restart_of_the_server_the_next_look_tells_all(engine, link):
    # Given a replica that prints, launched by a server that is then gone
    engine.launch(spec(("sh", "-c", "echo here; exec sleep 600"), node_name="n2"))

    # When another one, which has not looked yet, is asked for its output and then looks
    other = RayEngine(link=link)
    key = ReplicaKey(1, 1)
    wait_true(
        lambda: "here" in other.read_log(key, offset=0, limit_bytes=100).text, what="its output"
    )

    # Then it has the replica too
    assert seen_of(other, key).node_name == "n2"


def test_work_of_a_machine_that_is_out_of_touch_ends_by_itself(tmp_path: Path):
    # Given work on a node with a lease of a second
    link = DirectLink(tmp_path, "n1", lease_s=3)
    engine = RayEngine(link=link, lease_s=3)
    engine.observe()
    engine.launch(spec(("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"), node_name="n1"))
    wait_true(lambda: seen_of(engine, ReplicaKey(1, 1)).pid is not None, what="its pid")
    agent = link.agents["n1"]

    # When the head no longer calls the node alive, and nobody tells anybody to end
    link.alive.clear()

    # Then it is ended by its own supervisor, SIGKILL included, and counts as lost
    wait_true(lambda: agent.look().observations[0].ended_at is not None, what="its end")
    seen = agent.look().observations[0]
    assert seen.phase == "lost"
    assert seen.stop_reason == "out_of_touch"
    assert seen.signal == 9


def test_a_stop_that_is_under_way_has_no_longer_than_that_either(tmp_path: Path):
    # Given deaf work on a node, asked to end with a grace of five minutes
    link = DirectLink(tmp_path, "n1", lease_s=3)
    engine = RayEngine(link=link, lease_s=3)
    engine.observe()
    deaf = ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    key = ReplicaKey(1, 1)
    engine.launch(spec(deaf, node_name="n1", grace_s=2))
    wait_true(lambda: "deaf" in engine.read_log(key, offset=0, limit_bytes=99).text, what="it is")
    engine.terminate(key, grace_s=300, reason="by_user")
    agent = link.agents["n1"]
    wait_true(
        lambda: agent.look().observations[0].phase is EnginePhase.STOPPING, what="the stop began"
    )

    # When the node falls out of touch meanwhile
    link.alive.clear()

    # Then it is over long before its grace is, and why it was to end stays known
    wait_true(lambda: agent.look().observations[0].ended_at is not None, what="its end")
    seen = agent.look().observations[0]
    assert (seen.signal, seen.stop_reason) == (9, "by_user")


def test_a_lease_is_renewed_after_whatever_went_wrong(tmp_path: Path, monkeypatch):
    # Given an agent whose question to the head fails, each time in another way
    monkeypatch.setattr("scheduler.remote.agent.RENEW_EVERY_S", 0.05)
    failures = [RuntimeError("Ray is shut down"), SystemError("no such thing"), KeyError("Alive")]
    asked: list[int] = []

    def in_touch():
        asked.append(1)
        if failures:
            raise failures.pop()
        return True

    NodeAgent(
        Post(
            node_name="n1",
            host="127.0.0.1",
            data_dir=str(tmp_path / "n1"),
            shared_dir=str(tmp_path / "shared"),
            virtual_devices=1,
            lease_s=30,
            owner="tests",
        ),
        in_touch=in_touch,
    )
    # When the head answers again, then the lease is fresh, by the same thread as before
    wait_true(lambda: leases.age_s(str(tmp_path / "n1" / "lease")) < 30, what="a fresh lease")
    assert len(asked) >= 4


def test_a_node_whose_samples_fail_leaves_those_of_others_as_they_are(engine, link, monkeypatch):
    # Given busy work on two nodes, of which one can't measure
    busy = ("sh", "-c", "while :; do :; done")
    for replica, node in ((1, "n1"), (2, "n2")):
        engine.launch(spec(busy, replica=replica, node_name=node))
    wait_true(lambda: all(seen.pid for seen in engine.observe()), what="their pids")
    targets = targets_of(engine)

    def fail(_targets):
        raise EngineError("the agent failed: NVMLError")

    monkeypatch.setattr(link.agents["n2"], "sample", fail)
    sampler = RemoteSampler(engine)
    taken = []

    def is_measured():
        taken[:] = sampler.sample(targets)
        return taken[0].is_valid

    # Then the one is measured, and the other one is unknown
    wait_true(is_measured, what="a sample of n1")
    assert [sample.replica_id for sample in taken] == [1, 2]
    assert not taken[1].is_valid


def test_a_lease_knows_its_age_and_a_missing_one_is_over(tmp_path: Path):
    path = str(tmp_path / "lease")
    assert leases.age_s(path) == float("inf")
    leases.renew(path, in_touch_at_s=leases.seconds_since_boot() - 7)
    assert 7 <= leases.age_s(path) < 60


def test_samples_are_taken_where_the_work_runs_and_unknown_elsewhere(engine, link):
    # Given a busy replica on n1, and one on n2, which falls silent
    busy = ("sh", "-c", "while :; do :; done")
    engine.launch(spec(busy, replica=1, node_name="n1"))
    engine.launch(spec(busy, replica=2, node_name="n2"))
    wait_true(lambda: all(seen.pid for seen in engine.observe()), what="their pids")
    targets = targets_of(engine)
    link.deaf.add("n2")
    engine.observe()
    sampler = RemoteSampler(engine)

    # When samples are taken until there is something to compare with
    taken = []

    def is_measured():
        taken[:] = sampler.sample(targets)
        return taken[0].is_valid

    wait_true(is_measured, what="a sample of n1")

    # Then the one is busy, and of the other nothing is known
    assert taken[0].utilization_permille > 100
    assert [sample.replica_id for sample in taken] == [1, 2]
    assert not taken[1].is_valid


def test_orphans_and_storage_are_each_nodes_own(engine, link):
    # Given a workload whose directories were made on a node
    engine.launch(spec(("sleep", "600"), node_name="n1"))
    folder = link.folder / "shared" / "storage" / "workload-1"
    assert folder.exists()

    # When it is deleted
    engine.delete_storage("workload-1")

    # Then they are gone, and nobody was an orphan
    assert not folder.exists()
    assert engine.orphans() == ()


def test_progress_of_a_whole_node_is_one_question_a_look(engine, link):
    # Given three replicas on n1 that report, of which reports were read before
    reports = (
        "sh",
        "-c",
        """echo 'TIDEGATE {"progress": true, "step": 1, "total": 9}'; sleep 600""",
    )
    keys = [ReplicaKey(replica, 1) for replica in (1, 2, 3)]
    for key in keys:
        engine.launch(spec(reports, replica=key.replica_id, node_name="n1"))

    def read_all():
        engine.observe()
        return [engine.read_progress(key, after=0) for key in keys]

    wait_true(lambda: all(read_all()), what="their reports")

    # When they are read after the next look
    link.called.clear()
    found = read_all()

    # Then the node was asked once for all, and each tells what it did
    assert [report.step for each in found for report in each] == [1, 1, 1]
    assert link.called.count("read_progress_of_all") == 1
    assert engine.read_progress(keys[0], after=found[0][-1].number) == ()

    # And of a node that does not answer one question says so for all of them
    engine.observe()
    link.deaf.add("n1")
    asked = []
    call = link.call
    link.call = lambda *arguments: asked.append(1) or call(*arguments)
    for key in keys:
        with pytest.raises(EngineUnreachable):
            engine.read_progress(key, after=0)
    assert len(asked) == 1
    link.call = call
