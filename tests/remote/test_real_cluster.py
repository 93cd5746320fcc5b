"""Work on a real Ray cluster of three nodes: run, meet, lose a node, go on elsewhere, come back clean."""

from __future__ import annotations

import time
import uuid

import pytest

from dashboard.management.own_cluster import NAMES
from scheduler.engines.base import (
    EnginePhase,
    EngineUnreachable,
    Gang,
    LaunchRefused,
    ReplicaKey,
    Standing,
)
from scheduler.remote.engine import RayEngine
from scheduler.remote.link import RayLink
from tests.engines.harness import service, spec

pytestmark = pytest.mark.ray
PATIENCE_S = 150.0
LEASE_S = 20


@pytest.fixture(scope="module")
def link(ray_cluster):
    """Give a driver of the cluster in this process."""
    return RayLink(
        address=ray_cluster.address,
        token_file=ray_cluster.token_file,
        lease_s=LEASE_S,
        owner=str(uuid.uuid4()),
    )


@pytest.fixture
def engine(link):
    """Give the engine once all three nodes answer."""
    engine = RayEngine(link=link, lease_s=LEASE_S)
    until(lambda: all(standing(engine, name) is Standing.ANSWERS for name in NAMES))
    return engine


def look(engine):
    """Return what the engine sees; nothing while it is still connecting."""
    try:
        return {seen.key: seen for seen in engine.observe()}
    except EngineUnreachable:
        return {}


def standing(engine, name):
    look(engine)
    return engine.standing(name)


def until(is_so):
    until_s = time.monotonic() + PATIENCE_S
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < until_s, "it never came"
        time.sleep(0.3)


def phase_is(engine, key, phase):
    def find():
        seen = look(engine).get(key)
        return seen if seen is not None and seen.phase is phase else None

    return until(find)


def test_a_service_a_gang_and_a_refusal(engine):
    # Given the three nodes, each with two virtual devices
    assert [len(node.inventory.devices) for node in engine.joined_nodes()] == [2, 2, 2]

    # When a service is launched on n3
    serves = ("sh", "-c", "exec python -m http.server $PORT --bind $HOST")
    engine.launch(spec(serves, replica=1, node_name="n3", service=service()))

    # Then it answers at that node's own address
    seen = phase_is(engine, ReplicaKey(1, 1), EnginePhase.RUNNING)
    assert (seen.node_name, seen.endpoint.host) == ("n3", "127.0.0.4")

    # And a gang of three meets at the first one's node and trains together, a rank a node
    point = engine.find_meeting_point("n1")
    trains = ("python", "{examples}/gang/all_reduce.py", "--steps", "5", "--step-seconds", "0.01")
    for rank, name in enumerate(NAMES):
        gang = Gang(rank=rank, world_size=3, master_addr=point.host, master_port=point.port)
        engine.launch(spec(trains, replica=10 + rank, node_name=name, gang=gang))
    ended = [phase_is(engine, ReplicaKey(10 + rank, 1), EnginePhase.EXITED) for rank in range(3)]
    assert [one.exit_code for one in ended] == [0, 0, 0]
    assert "step 5/5" in engine.read_log(ReplicaKey(10, 1), offset=0, limit_bytes=9999).text

    # And what no node can run is refused with the reason
    with pytest.raises(LaunchRefused, match="no such command"):
        engine.launch(spec(("nonesuch",), replica=20, node_name="n2"))

    # And the service ends by SIGTERM, for another server that has just started
    other = RayEngine(link=engine._link, lease_s=LEASE_S)
    other.terminate(ReplicaKey(1, 1), grace_s=20, reason="reclaim")
    assert phase_is(other, ReplicaKey(1, 1), EnginePhase.EXITED).stop_reason == "reclaim"


def test_a_node_that_is_lost_and_comes_back(engine, ray_cluster):
    # Given deaf work on n2
    key = ReplicaKey(30, 1)
    deaf = ("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    engine.launch(spec(deaf, replica=30, node_name="n2"))
    phase_is(engine, key, EnginePhase.RUNNING)

    # When the node's own processes are killed
    ray_cluster.kill("n2")
    lost_at_s = time.monotonic()

    # Then it is silent first, and gone for certain within what the docs say; the others answer on
    until(lambda: standing(engine, "n2") is Standing.SILENT)
    until(lambda: standing(engine, "n2") is Standing.GONE)
    print(f"node lost to gone for certain: {time.monotonic() - lost_at_s:.1f} s, lease {LEASE_S} s")
    assert standing(engine, "n1") is Standing.ANSWERS
    assert key not in look(engine)

    # And when it joins again, what ran there has ended by itself and is told of until it is forgotten
    ray_cluster.join("n2")
    until(lambda: standing(engine, "n2") is Standing.ANSWERS)
    seen = look(engine)[key]
    assert (seen.phase, seen.stop_reason) == (EnginePhase.LOST, "out_of_touch")
    engine.forget(key)
    assert key not in look(engine)
