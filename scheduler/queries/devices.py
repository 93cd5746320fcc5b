"""One GPU: what it is, and the processes on it with the memory that they were granted and use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from scheduler import models
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """The process of one replica on a device. ``pid`` is its first one; what is used is of all."""

    workload_id: int
    workload_name: str
    project_name: str
    color: int
    kind: str
    ordinal: int
    pid: int | None
    phase: str
    mgpu: int
    granted_mib: int
    #: None: not measured yet, or of a replica on several devices, where only the sum is known.
    used_mib: int | None
    #: Of its share.
    utilization_permille: int | None
    sampled_at: datetime | None
    #: More than one: it uses memory of others, too.
    device_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDetail:
    """One GPU with what is on it, so far as the reader may see it."""

    node_name: str
    index: int
    uuid: str
    model: str
    memory_mib: int | None
    virtual: bool
    healthy: bool
    processes: tuple[DeviceProcess, ...]
    #: What work outside of the reader's scope holds.
    others_mgpu: int
    #: None: not told, since the cluster's setting hides what others hold.
    free_mgpu: int | None

    @property
    def granted_mib(self) -> int:
        """Return what the processes that are shown were granted."""
        return sum(process.granted_mib for process in self.processes)

    @property
    def used_mib(self) -> int:
        """Return what the processes that are shown use, so far as it is known."""
        return sum(process.used_mib or 0 for process in self.processes)


def read_device(*, visible: Visibility, node_name: str, index: int) -> DeviceDetail | None:
    """Return one GPU, or None where there is none for the reader."""
    devices = models.Device.objects.select_related("node").filter(node__name=node_name, index=index)
    if not visible.scratch:
        devices = devices.filter(node__pool__scratch=False)
    device = devices.first()
    if device is None:
        return None
    held = models.ReplicaDevice.objects.filter(device=device).exclude(
        replica__phase=ReplicaPhase.ENDED
    )
    projects = models.Project.objects.filter(visible.projects())
    seen = held.filter(replica__workload__project__in=projects.values("pk"))
    rows = seen.select_related("replica__workload__project").order_by("replica__booked_at", "id")
    processes = tuple(_process(row) for row in rows)
    own_mgpu = sum(process.mgpu for process in processes)
    all_mgpu = int(held.aggregate(n=Sum("mgpu"))["n"] or 0)
    return DeviceDetail(
        node_name=device.node.name,
        index=device.index,
        uuid=device.uuid,
        model=device.model or device.node.gpu_model,
        memory_mib=device.memory_mib,
        virtual=device.virtual,
        healthy=device.healthy,
        processes=processes,
        others_mgpu=all_mgpu - own_mgpu if visible.tells_others else 0,
        free_mgpu=WHOLE_GPU_MGPU - all_mgpu if visible.tells_others else None,
    )


def _process(row: models.ReplicaDevice) -> DeviceProcess:
    replica = row.replica
    workload = replica.workload
    return DeviceProcess(
        workload_id=workload.pk,
        workload_name=workload.name,
        project_name=workload.project.name,
        color=workload.project.color,
        kind=workload.kind,
        ordinal=replica.ordinal,
        pid=replica.pid,
        phase=replica.phase,
        mgpu=row.mgpu,
        granted_mib=row.memory_mib,
        used_mib=replica.memory_used_mib if workload.devices == 1 else None,
        utilization_permille=replica.utilization_permille,
        sampled_at=replica.sampled_at,
        device_count=workload.devices,
    )
