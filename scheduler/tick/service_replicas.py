"""Which replicas of a service go, serve on, or give way to one elsewhere; none is ended while it answers."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler import models
from scheduler.core import autoscale as core
from scheduler.core import drain
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.tick.service_scene import Scene, note_event

#: A replica is asked to end no sooner after its drain began: by then every gateway has seen it.
LEAST_DRAIN_US = 1_500_000


def match_replicas(scene: Scene, desired: int) -> bool:
    """Send away what is above the number, take back what is below it, end what has drained."""
    _forget_gone(scene)
    surplus = len(scene.lasting) - desired
    moved = surplus > 0 or (surplus < 0 and bool(_may_serve_on(scene)))
    for replica in _choose_to_leave(scene, max(0, surplus)):
        if replica.phase == ReplicaPhase.STARTING:
            _stop(scene, replica)
        else:
            scene.service.draining[str(replica.pk)] = to_us(scene.now)
            note_event(scene, "draining", {"ordinal": replica.ordinal})
    if surplus < 0:
        _take_back(scene, -surplus)
    moved |= _let_replaced_go(scene, desired)
    for replica in scene.alive:
        if _has_drained(scene, replica):
            _stop(scene, replica)
            del scene.service.draining[str(replica.pk)]
            moved = True
    return moved


def _forget_gone(scene: Scene) -> None:
    there = {str(r.pk) for r in scene.alive if r.phase == ReplicaPhase.RUNNING}
    draining: Mapping[str, int] = scene.service.draining
    scene.service.draining = {each: at for each, at in draining.items() if each in there}


def _choose_to_leave(scene: Scene, count: int) -> list[models.Replica]:
    """Return the newest that don't answer yet, then those with the least in flight."""

    def order(replica: models.Replica) -> tuple[bool, int, int]:
        answers = replica.phase == ReplicaPhase.RUNNING
        return answers, scene.told.replicas.get(replica.pk, 0), -replica.pk

    return sorted(scene.lasting, key=order)[:count]


def _take_back(scene: Scene, count: int) -> None:
    """Let the replicas that began to drain last serve on: they need no start."""
    for replica_id in _may_serve_on(scene)[:count]:
        del scene.service.draining[replica_id]


def _may_serve_on(scene: Scene) -> list[str]:
    """Return those that drain, the latest first, without those on a node that is emptied."""
    leaving = {str(each.pk) for each in scene.alive if each.node.draining}
    latest = sorted(scene.service.draining.items(), key=lambda item: (-item[1], item[0]))
    return [replica_id for replica_id, _ in latest if replica_id not in leaving]


def _let_replaced_go(scene: Scene, desired: int) -> bool:
    """Drain replicas on nodes that are emptied for which another answers elsewhere; end those that start."""
    here = [replica for replica in scene.staying if replica.node.draining]
    if not here:
        return False
    for replica in here:
        if replica.phase == ReplicaPhase.STARTING:
            _stop(scene, replica)
    answering = [replica for replica in here if replica.phase == ReplicaPhase.RUNNING]
    going = drain.replaced(
        here=[replica.pk for replica in answering],
        ready_elsewhere=sum(each.phase == ReplicaPhase.RUNNING for each in scene.lasting),
        wanted=desired,
    )
    for replica in answering:
        if replica.pk in going:
            scene.service.draining[str(replica.pk)] = to_us(scene.now)
            node = replica.node.name
            note_event(scene, "replaced", {"ordinal": replica.ordinal, "node": node})
    return bool(going) or len(answering) < len(here)


def _has_drained(scene: Scene, replica: models.Replica) -> bool:
    since_us = scene.service.draining.get(str(replica.pk))
    if since_us is None or replica.phase != ReplicaPhase.RUNNING:
        return False
    waited_us = to_us(scene.now) - since_us
    if waited_us >= scene.service.drain_s * core.SECOND_US:
        return True
    busy = scene.told.replicas.get(replica.pk, 0)
    return not busy and bool(scene.told.gateways) and waited_us >= LEAST_DRAIN_US


def _stop(scene: Scene, replica: models.Replica) -> None:
    replica.phase = ReplicaPhase.STOPPING
    replica.stopping_at = scene.now
    replica.stop_code = "scale_down"
    replica.save(update_fields=["phase", "stopping_at", "stop_code"])
