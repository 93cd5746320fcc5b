"""Nodes that are emptied: how far that is, and what is still there and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.core.drain import AtDeadline, Resident, Stay, is_due, stay_of
from scheduler.core.vocabulary import Kind, ReplicaPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One workload that is still there."""

    id: int
    name: str
    project_name: str
    replicas: int
    stay: Stay
    #: Of a service that waits for its replacement: why that does not start; a code of the core.
    reason_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One node that is emptied. ``found``: how many workloads were there when that began."""

    node_id: int
    began_at: datetime
    began_by: str
    deadline: datetime | None
    at_deadline: AtDeadline
    emptied_at: datetime | None
    found: int
    left: tuple[Left, ...]

    @property
    def gone(self) -> int:
        """How many workloads have left."""
        return max(0, self.found - len(self.left))


def list_drains(*, now: datetime) -> dict[int, Drain]:
    """Return the nodes that are emptied at ``now``, by id; for who may change nodes."""
    drains = list(models.NodeDrain.objects.filter(ended_at=None))
    if not drains:
        return {}
    living = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
    there: dict[int, dict[int, list[models.Replica]]] = defaultdict(lambda: defaultdict(list))
    rows = living.filter(node__in=[each.node_id for each in drains])
    for row in rows.select_related("workload__project").order_by("workload_id", "pk"):
        there[row.node_id][row.workload_id].append(row)
    return {
        each.node_id: Drain(
            node_id=each.node_id,
            began_at=each.began_at,
            began_by=each.began_by,
            deadline=each.deadline,
            at_deadline=AtDeadline(each.at_deadline),
            emptied_at=each.emptied_at,
            found=each.found,
            left=tuple(_left(own, each, now) for own in there[each.node_id].values()),
        )
        for each in drains
    }


def _left(own: list[models.Replica], drain: models.NodeDrain, now: datetime) -> Left:
    workload = own[0].workload
    staying = tuple(row.pk for row in own if row.phase != ReplicaPhase.STOPPING)
    resident = Resident(
        workload_id=workload.pk,
        kind=Kind(workload.kind),
        preemptible=workload.preemptible,
        min_replicas=workload.min_replicas,
        running=staying,
        is_due=is_due(at_deadline=AtDeadline(drain.at_deadline), deadline=drain.deadline, now=now),
    )
    stay = stay_of(resident) if staying else Stay.LEAVES
    return Left(
        id=workload.pk,
        name=workload.name,
        project_name=workload.project.name,
        replicas=len(own),
        stay=stay,
        reason_code=workload.reason_code if stay is Stay.REPLACED else "",
    )
