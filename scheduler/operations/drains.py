"""Emptying a node, and letting work come again. The tick carries out what is written here."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from scheduler import events, models
from scheduler.core.drain import AtDeadline
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.operations import audit, notices
from scheduler.operations.authority import Authority
from scheduler.operations.nodes import require_nodes
from scheduler.operations.refused import NodeRefused, NotFound, Problem, StateRefused

LONGEST = timedelta(days=30)


@transaction.atomic
def begin_drain(
    *,
    node_id: int,
    deadline: datetime | None,
    at_deadline: AtDeadline,
    authority: Authority,
    now: datetime,
) -> models.NodeDrain:
    """Begin to empty a node: nothing new comes, and what is there leaves by the rules of ``core.drain``.

    Raises:
        NodeRefused: the deadline is past, or more than 30 days away.
        StateRefused: it is being emptied already.
    """
    node = _locked(node_id, authority)
    if deadline is not None and not now < deadline <= now + LONGEST:
        raise NodeRefused(
            [
                Problem(
                    field="deadline",
                    code="bad_deadline",
                    message="Choose a time in the next 30 days, or none.",
                )
            ]
        )
    if node.draining:
        raise StateRefused([_state(node, "drained_already", "is being emptied already.")])
    node.draining = True
    node.save(update_fields=["draining"])
    models.NodeDrain.objects.filter(node=node, ended_at=None).update(ended_at=now)
    residents = list(
        models.Workload.objects.filter(replicas__in=_living(node)).distinct().order_by("pk")
    )
    drain = models.NodeDrain.objects.create(
        node=node,
        began_at=now,
        began_by=authority.name,
        deadline=deadline,
        at_deadline=at_deadline.value,
        found=len(residents),
    )
    terms: dict[str, object] = {
        "draining": True,
        "deadline": None if deadline is None else deadline.isoformat(),
        "at_deadline": at_deadline.value,
    }
    _record("node.drain", node, terms, authority, now)
    for workload in residents:
        told: dict[str, object] = {"node": node.name}
        if deadline is not None:
            told["left_s"] = int((deadline - now).total_seconds())
        notices.tell_owner(workload=workload, code="drain_begun", params=told, now=now)
    return drain


@transaction.atomic
def end_drain(*, node_id: int, authority: Authority, now: datetime) -> models.Node:
    """Let work come to a node again. What has left it is not called back.

    Raises:
        StateRefused: it is not being emptied.
    """
    node = _locked(node_id, authority)
    if not node.draining:
        raise StateRefused([_state(node, "not_drained", "is not being emptied.")])
    node.draining = False
    node.save(update_fields=["draining"])
    models.NodeDrain.objects.filter(node=node, ended_at=None).update(
        ended_at=now, ended_by=authority.name
    )
    _record("node.undrain", node, {"draining": False}, authority, now)
    return node


def _locked(node_id: int, authority: Authority) -> models.Node:
    require_nodes(authority)
    models.Cluster.objects.locked()  # first, as the tick does
    node = models.Node.objects.select_for_update().filter(pk=node_id).first()
    if node is None:
        raise NotFound("node")
    return node


def _living(node: models.Node) -> list[int]:
    rows = models.Replica.objects.filter(node=node).exclude(phase=ReplicaPhase.ENDED)
    return list(rows.values_list("pk", flat=True))


def _state(node: models.Node, code: str, says: str) -> Problem:
    return Problem(
        field="node", code=code, message=f"{node.name} {says}", params={"name": node.name}
    )


def _record(
    action: str,
    node: models.Node,
    after: dict[str, object],
    authority: Authority,
    now: datetime,
) -> None:
    before = {"draining": not after["draining"]}
    audit.record(
        authority=authority, now=now, action=action, target=node, before=before, after=after
    )
    models.Cluster.objects.filter(pk=1).update(generation=F("generation") + 1)
    events.wake_on_commit()
