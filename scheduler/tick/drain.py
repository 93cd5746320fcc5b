"""Carries out the emptying of nodes: who is asked to leave, and when a node is empty or late.

Replicas of services are replaced first: that is done beside their scaling (``autoscale.py``).
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from django.db import transaction

from scheduler import models
from scheduler.core import drain as core
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.operations import notices
from scheduler.operations.authority import Action
from scheduler.tick.records import lost_s


def carry_out(*, now: datetime) -> bool:
    """Ask to leave who is to leave now. True where someone was asked."""
    drains = list(models.NodeDrain.objects.filter(ended_at=None).select_related("node"))
    if not drains:
        return False
    with transaction.atomic():
        models.Cluster.objects.locked()
        by_node = {each.node_id: each for each in drains}
        alive = _alive(by_node)
        asked = False
        rows = {row.pk: row for own in alive.values() for row in own}
        for leave in core.who_leaves(_resident(own, by_node, now) for own in alive.values()):
            _ask(leave, [rows[pk] for pk in leave.replica_ids], by_node, now)
            asked = True
        still = {row.node_id for row in rows.values()}
        for each in drains:
            _note(each, is_empty=each.node_id not in still, now=now)
    return asked


def _alive(by_node: dict[int, models.NodeDrain]) -> dict[int, list[models.Replica]]:
    """Return all living replicas of the workloads that have one on such a node."""
    living = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
    here = living.filter(node__in=by_node).values("workload_id")
    found: dict[int, list[models.Replica]] = defaultdict(list)
    for row in living.filter(workload__in=here).select_related("workload").order_by("pk"):
        found[row.workload_id].append(row)
    return found


def _resident(
    own: list[models.Replica], by_node: dict[int, models.NodeDrain], now: datetime
) -> core.Resident:
    workload = own[0].workload
    staying = [row for row in own if row.phase != ReplicaPhase.STOPPING]
    emptied = [row for row in staying if row.node_id in by_node]
    due = [row for row in emptied if _is_due(by_node[row.node_id], now)]
    here = due or emptied  # where a time is over, what is there goes first
    return core.Resident(
        workload_id=workload.pk,
        kind=Kind(workload.kind),
        preemptible=workload.preemptible,
        min_replicas=workload.min_replicas,
        running=tuple(row.pk for row in here if row.phase == ReplicaPhase.RUNNING),
        starting=tuple(row.pk for row in here if row.phase == ReplicaPhase.STARTING),
        elsewhere=tuple(row.pk for row in staying if row not in here),
        is_due=bool(due),
    )


def _is_due(drain: models.NodeDrain, now: datetime) -> bool:
    at_deadline = core.AtDeadline(drain.at_deadline)
    return core.is_due(at_deadline=at_deadline, deadline=drain.deadline, now=now)


def _ask(
    leave: core.Leave,
    rows: list[models.Replica],
    by_node: dict[int, models.NodeDrain],
    now: datetime,
) -> None:
    """Ask replicas of one workload to leave, and write down why."""
    if not rows or Phase(rows[0].workload.phase) in (Phase.STOPPING, Phase.STOPPED):
        return
    drain = next(by_node[row.node_id] for row in rows if row.node_id in by_node)
    models.Replica.objects.filter(pk__in=leave.replica_ids).update(
        phase=ReplicaPhase.STOPPING, stopping_at=now, stop_code="drain"
    )
    workload = models.Workload.objects.select_for_update().get(pk=leave.workload_id)
    workload.generation += 1
    workload.interruptions += 1
    if leave.whole:
        workload.phase, workload.phase_since = Phase.STOPPING, now
    workload.save(update_fields=["generation", "interruptions", "phase", "phase_since"])
    told: dict[str, object] = {
        "node": drain.node.name,
        "whole": leave.whole,
        "freed_mgpu": sum(row.mgpu for row in rows),
        "due": _is_due(drain, now),
        "by": drain.began_by,
        "checkpoint": workload.checkpoint,
        "lost_s": lost_s(workload, now=now),
    }
    decision = models.Decision.objects.create(
        at=now,
        verb="drain",
        workload=workload,
        project_id=workload.project_id,
        pool_id=workload.pool_id,
        params=told,
    )
    models.WorkloadEvent.objects.create(
        workload=workload, at=now, code="drained", params=told, decision=decision
    )
    notices.tell_owner(workload=workload, code="drained", params=told, now=now)


def _note(drain: models.NodeDrain, *, is_empty: bool, now: datetime) -> None:
    """Tell admins once that a node is empty, or that it is not although its time is over."""
    params = {"node": drain.node.name}
    if is_empty and drain.emptied_at is None:
        drain.emptied_at = now
        drain.save(update_fields=["emptied_at"])
        notices.announce(code="node_emptied", params=params, audience=Action.NODES, now=now)
    elif not is_empty and drain.deadline is not None and not drain.late_told:
        if now < drain.deadline or drain.at_deadline == core.AtDeadline.STOP:
            return
        drain.late_told = True
        drain.save(update_fields=["late_told"])
        notices.announce(code="drain_late", params=params, audience=Action.NODES, now=now)
