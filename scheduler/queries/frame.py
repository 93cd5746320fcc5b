"""The few counts that stand in the frame of every page."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q
from django.utils import timezone

from scheduler import models
from scheduler.core.vocabulary import Kind
from scheduler.queries.emergency import ControlRow, list_controls
from scheduler.queries.pool_columns import LIVING_PHASES
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCounts:
    """Counts over the reader's scope."""

    cluster_name: str
    gpus: int
    workloads: int
    services: int
    #: Emergency controls that concern the reader.
    controls: tuple[ControlRow, ...] = ()


def read_frame_counts(*, visible: Visibility) -> FrameCounts:
    """Return the counts. Three queries, and one more while emergency controls are in force."""
    devices = models.Device.objects.all()
    pools = models.NodePool.objects.all()
    if not visible.scratch:
        devices = devices.filter(node__pool__scratch=False)
        pools = pools.filter(scratch=False)
    # By pool and phase there is an index: what has ended, all but a few, is not looked at.
    workloads = models.Workload.objects.filter(
        visible.projects(prefix="project__"),
        pool__in=pools.values("id"),
        phase__in=LIVING_PHASES,
        deleted_at__isnull=True,
    )
    cluster = models.Cluster.objects.filter(id=1).first() or models.Cluster(id=1)
    counted = workloads.aggregate(all=Count("pk"), services=Count("pk", Q(kind=Kind.INFERENCE)))
    return FrameCounts(
        cluster_name=cluster.name,
        gpus=devices.count(),
        workloads=counted["all"],
        services=counted["services"],
        controls=list_controls(visible=visible, now=timezone.now()) if cluster.has_controls else (),
    )
