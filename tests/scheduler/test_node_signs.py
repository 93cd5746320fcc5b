"""Nodes that fall silent, are gone, come back dirty or clean, and join by themselves."""

from __future__ import annotations

import pytest

from scheduler import models
from scheduler.engines.base import DeviceInfo, JoinedNode, NodeInventory, Standing
from scheduler.operations import nodes
from scheduler.operations.authority import SYSTEM
from scheduler.tick import engine_room
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def place():
    """Return two nodes of one card each, n1 and n2, and a project that may have both."""
    place = places.card()
    models.Node.objects.update(name="n1")
    device = nodes.DeviceFacts(model="L40S 48 GB", memory_mib=46_068, virtual=True)
    nodes.register_node(
        pool_id=place.pool.pk,
        facts=nodes.NodeFacts(name="n2", devices=[device], engine="fake"),
        authority=SYSTEM,
        now=places.START,
    )
    return place.department("research", quota="2").project("lab", of="research", quota="2")


def node_of(workload):
    row = models.Replica.objects.exclude(phase="ended").filter(workload=workload).first()
    return None if row is None else row.node.name


def state_of(name):
    return models.Node.objects.get(name=name).state


def test_of_a_silent_node_nothing_is_concluded(ticker, place):
    # Given work on a node that then does not answer
    work = place.submit("train", of="lab", gpu="1", command=["fake"])
    ticker.settle()
    home = node_of(work)
    ticker.engine.standings[home] = Standing.SILENT

    # When a minute passes
    ticker.settle(ticks=4, seconds=15)

    # Then the node is lost, and the work keeps its device: it may still run there
    assert state_of(home) == "lost"
    assert node_of(work) == home
    assert place.phase("train") == "running"
    assert models.Device.objects.get(node__name=home).allocated_mgpu == 1000


def test_work_of_a_node_that_is_gone_goes_on_elsewhere(ticker, place):
    # Given work that was last seen on a node at some instant
    work = place.submit("train", of="lab", gpu="1", command=["fake"])
    ticker.settle()
    home = node_of(work)
    last_seen_at = models.Replica.objects.get().last_seen_at

    # When the node is silent for a while and then known to be gone
    ticker.engine.standings[home] = Standing.SILENT
    ticker.settle(ticks=3, seconds=10)
    ticker.engine.standings[home] = Standing.GONE
    ticker.settle(ticks=3, seconds=1)

    # Then it runs on the other node, as no failure of its own, and the ledger ends at the last sign of life
    other = {"n1": "n2", "n2": "n1"}[home]
    assert node_of(work) == other
    assert place.fresh("train").failures == 0
    assert state_of(home) == "lost"
    first = models.AllocationInterval.objects.order_by("id").first()
    assert first.to_us == int(last_seen_at.timestamp() * 1_000_000)


def test_a_booking_on_a_node_that_is_gone_is_placed_elsewhere(ticker, place):
    # Given a booking that its node never got
    work = place.submit("train", of="lab", gpu="1", command=["fake"])
    ticker.settle()
    home = node_of(work)
    models.Replica.objects.update(launched_at=None, phase="starting")
    ticker.engine._replicas.clear()

    # When the node is gone
    ticker.engine.standings[home] = Standing.GONE
    ticker.settle(ticks=3, seconds=1)

    # Then the work runs on the other one
    assert node_of(work) not in (None, home)
    assert place.fresh("train").failures == 0


def test_a_node_that_is_back_gets_work_once_nothing_of_before_runs_there(ticker, place):
    # Given a node that was gone, whose work went on elsewhere, and which still has the old process
    work = place.submit("train", of="lab", gpu="1", command=["fake", "ignores-term"])
    ticker.settle()
    home, key = node_of(work), ticker.key(work)
    ticker.engine.standings[home] = Standing.GONE
    ticker.settle(ticks=3, seconds=1)
    assert node_of(work) != home

    # When it answers again
    del ticker.engine.standings[home]
    ticker.tick(seconds=0.5)

    # Then it stays closed while what ran there is ended
    assert state_of(home) == "lost"
    assert ticker.engine._replicas[key].seen.term_sent_at is not None

    # And it is ready once that is gone
    ticker.settle(ticks=8, seconds=1)
    assert key not in ticker.engine._replicas
    assert state_of(home) == "ready"


def test_a_machine_that_joins_by_itself_is_registered_once(ticker, place, monkeypatch):
    # Given a machine with two devices that joins the cluster, for a pool by name
    device = {"uuid": "", "model": "virtual", "memory_mib": 46_068, "virtual": True}
    devices = tuple(DeviceInfo(index=index, **device) for index in range(2))
    inventory = NodeInventory(hostname="vm", cpu_milli=8000, memory_mib=32_768, devices=devices)
    joined = (JoinedNode(name="n3", pool_name="default", inventory=inventory),)
    ticker.engine.joined = joined
    monkeypatch.setattr(engine_room, "named_by_settings", lambda: {"fake"})

    # When ticks pass
    ticker.settle()

    # Then it is a node of that pool with its devices, audited, and takes work
    node = models.Node.objects.get(name="n3")
    assert (node.engine, node.pool, node.devices.count()) == ("fake", place.pool, 2)
    assert models.AuditEntry.objects.filter(action="node.register", object_id=node.pk).count() == 1
    place.submit("two", of="lab", gpu="1", devices=2, command=["fake"])
    ticker.settle()
    assert place.phase("two") == "running"


def test_a_machine_whose_pool_is_not_there_is_left_alone(ticker, place):
    inventory = NodeInventory(hostname="vm", cpu_milli=8000, memory_mib=32_768)
    ticker.engine.joined = (JoinedNode(name="n3", pool_name="none", inventory=inventory),)
    ticker.settle()
    assert not models.Node.objects.filter(name="n3").exists()
