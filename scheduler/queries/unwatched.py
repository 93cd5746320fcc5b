"""Which running work nobody can watch: its activity is unknown, which is neither idle nor busy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from scheduler import models
from scheduler.core.vocabulary import Phase, ReplicaPhase
from scheduler.queries.visibility import Visibility

#: A reading that is older says nothing about now; what runs for less may still get its first.
READ_WITHIN = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwatchedRow:
    """One running workload without a reading of now."""

    workload_id: int
    name: str
    project_name: str
    color: int
    kind: str
    owner: str
    held_mgpu: int
    #: Its oldest last reading among its replicas; None: nothing was ever read.
    read_at: datetime | None


def unwatched(*, now: datetime) -> QuerySet[models.Workload]:
    """Return running workloads of which a replica that runs had no valid reading in two minutes.

    Idle rules leave them alone, and the ledger counts their time as unknown. Scratch trees are left out.
    """
    fresh = now - READ_WITHIN
    unread = models.Replica.objects.alias(began_at=Coalesce("running_at", "booked_at")).filter(
        Q(sampled_at__isnull=True) | Q(sampled_at__lt=fresh) | Q(idle__isnull=True),
        workload=OuterRef("pk"),
        phase=ReplicaPhase.RUNNING,
        began_at__lt=fresh,
    )
    return models.Workload.objects.filter(
        Exists(unread),
        phase=Phase.RUNNING,
        deleted_at=None,
        project__department__scratch=False,
    )


def list_unwatched(*, visible: Visibility, now: datetime) -> tuple[UnwatchedRow, ...]:
    """Return what can't be watched in a reader's scope, the most GPU first. One query."""
    runs = Q(replicas__phase=ReplicaPhase.RUNNING)
    found = (
        unwatched(now=now)
        .filter(pk__in=models.Workload.objects.filter(visible.projects(prefix="project__")))
        .select_related("project")
        .annotate(
            held=Sum("replicas__mgpu", filter=runs),
            read_at=Min("replicas__sampled_at", filter=runs),
        )
        .order_by("-held", "id")
    )
    return tuple(
        UnwatchedRow(
            workload_id=row.pk,
            name=row.name,
            project_name=row.project.name,
            color=row.project.color,
            kind=row.kind,
            owner=row.submitted_by,
            held_mgpu=row.held or 0,
            read_at=row.read_at,
        )
        for row in found
    )
