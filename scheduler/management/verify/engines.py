"""Where the work of a verification runs: on this machine, or on a node of the cluster where there is one."""

from __future__ import annotations

import time
from functools import cache

from scheduler import models
from scheduler.engines.base import Engine, EngineUnreachable
from scheduler.operations.nodes import NodeFacts
from scheduler.remote.engine import name_on
from scheduler.tick import engine_room

#: A process that has just begun takes so long at most to speak to a cluster.
CONNECTED_WITHIN_S = 90.0


class NoNode(Exception):
    """The cluster has no node that answers."""


@cache
def engine() -> Engine:
    """Return the engine that runs what is verified, once it answers.

    Raises:
        NoNode: it does not.
    """
    found = engine_room.engine(_name())
    deadline = time.monotonic() + CONNECTED_WITHIN_S
    while _name() == engine_room.REMOTE and not _answers(found):
        if time.monotonic() > deadline:
            raise NoNode("The cluster of TIDEGATE_RAY_ADDRESS does not answer.")
        time.sleep(0.5)
    return found


def place(facts: NodeFacts) -> NodeFacts:
    """Return the facts of a scratch node with the engine that carries it, on a cluster also the machine.

    Raises:
        NoNode: no node of the cluster is ready.
    """
    if _name() != engine_room.REMOTE:
        return facts
    ready = models.Node.objects.filter(
        engine=engine_room.REMOTE, state=models.Node.State.READY, pool__scratch=False
    )
    machine = ready.order_by("-name").values_list("name", flat=True).first()
    if machine is None:
        raise NoNode("No node of the cluster is ready.")
    return NodeFacts(
        name=name_on(facts.name, machine=machine), devices=facts.devices, engine=engine_room.REMOTE
    )


def _name() -> str:
    return next(iter(engine_room.named_by_settings()), "local")


def _answers(found: Engine) -> bool:
    try:
        found.observe()
    except EngineUnreachable:
        return False
    return True
