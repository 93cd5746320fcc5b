"""Which nodes give a sign of life: seen, lost, back and clean, joined by themselves."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from scheduler import models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.engines.base import LIVE_PHASES, JoinedNode
from scheduler.operations import nodes as operations
from scheduler.operations import notices
from scheduler.operations.authority import SYSTEM, Action
from scheduler.remote.engine import machine_of
from scheduler.tick.observations import Observations

log = logging.getLogger(__name__)


def record(*, observations: Observations, now: datetime) -> None:
    """Note which nodes were seen. One that is silent for too long is lost: nothing new comes there.

    What runs on a lost node keeps its devices: they are free on proof, not on suspicion. Proof is that
    its engine says that the node is gone. A node that is back gets work once nothing of before runs there.
    """
    _register_joined(observations, now)
    seen: list[models.Node] = []
    unseen: list[models.Node] = []
    rows = models.Node.objects.only("id", "name", "engine", "state", "last_seen_at").order_by("id")
    for node in rows:
        told = observations.is_told_of(engine=node.engine, node_name=node.name)
        is_there = told and node.name not in observations.gone
        (seen if is_there else unseen).append(node)
    models.Node.objects.filter(pk__in=[node.pk for node in seen]).update(last_seen_at=now)
    back = [node for node in seen if node.state == models.Node.State.LOST]
    dirty = _with_unknown_work(observations) if back else set()
    clean = [node for node in back if machine_of(node.name) not in dirty]
    _turn(clean, state=models.Node.State.READY, code="node_back", now=now)
    lost_after = timedelta(seconds=models.Cluster.objects.one().node_lost_after_s)
    lost = [
        node
        for node in unseen
        if node.state == models.Node.State.READY
        and (node.name in observations.gone or _is_silent_since(node, now - lost_after))
    ]
    _turn(lost, state=models.Node.State.LOST, code="node_lost", now=now)


def _register_joined(observations: Observations, now: datetime) -> None:
    """Write down machines that joined by themselves, in the pool that they name or the first one."""
    known = (
        set(models.Node.objects.values_list("name", flat=True)) if observations.joined else set()
    )
    for engine, node in observations.joined:
        if node.name in known:
            continue
        pools = models.NodePool.objects.filter(scratch=False).order_by("id")
        pool = pools.filter(name=node.pool_name).first() if node.pool_name else pools.first()
        if pool is None:
            log.error("observe.node.no_pool", extra={"node": node.name, "pool": node.pool_name})
            continue
        operations.register_node(
            pool_id=pool.pk, facts=_facts_of(node, engine), authority=SYSTEM, now=now
        )
        log.warning("observe.node.joined", extra={"node": node.name, "pool": pool.name})


def _facts_of(node: JoinedNode, engine: str) -> operations.NodeFacts:
    """Return what is registered of a machine. A virtual device is named anew: by its node."""
    devices = [
        operations.DeviceFacts(
            model=device.model,
            memory_mib=device.memory_mib,
            uuid="" if device.virtual else device.uuid,
            virtual=device.virtual,
        )
        for device in node.inventory.devices
    ]
    return operations.NodeFacts(
        name=node.name,
        devices=devices,
        engine=engine,
        cpu_milli=node.inventory.cpu_milli,
        memory_mib=node.inventory.memory_mib,
    )


def _is_silent_since(node: models.Node, instant: datetime) -> bool:
    return node.last_seen_at is not None and node.last_seen_at < instant


def _with_unknown_work(observations: Observations) -> set[str]:
    """Return the nodes on which something lives that no replica's row speaks of."""
    live = {key: seen for key, seen in observations.by_key.items() if seen.phase in LIVE_PHASES}
    known = set(
        models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).values_list("pk", "attempt")
    )
    return {s.node_name for k, s in live.items() if (k.replica_id, k.attempt) not in known}


def _turn(nodes: list[models.Node], *, state: str, code: str, now: datetime) -> None:
    for node in nodes:
        log.warning("observe.node.turned", extra={"node": node.name, "state": state})
        notices.announce(code=code, params={"node": node.name}, audience=Action.NODES, now=now)
    if nodes:
        models.Node.objects.filter(pk__in=[node.pk for node in nodes]).update(state=state)
