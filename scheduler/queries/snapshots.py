"""Tables to one Snapshot a node pool, in a fixed number of queries: what a tick decides on, and previews."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from django.db.models import Q

from scheduler import models
from scheduler.core import emergency
from scheduler.core import snapshot as facts
from scheduler.core.instants import optional_us, to_us
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import HOLDING_PHASES, Kind, Phase, ReplicaPhase
from scheduler.queries.emergency import core_controls
from scheduler.queries.kept_rows import KeptRows, KeptValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One pool as it was read, with what apply needs to find the rows again."""

    pool: models.NodePool
    snapshot: facts.Snapshot
    policy: facts.Policy
    workloads: dict[int, models.Workload] = field(default_factory=dict)
    #: Rows of replicas that hold devices, by id.
    replicas: dict[int, models.Replica] = field(default_factory=dict)
    nodes: dict[str, models.Node] = field(default_factory=dict)
    devices: dict[tuple[str, int], models.Device] = field(default_factory=dict)
    #: Emergency controls that were not ended, for what is not in the tables yet.
    controls: tuple[emergency.Control, ...] = ()


class Keep:
    """What was read before, so that only what differs is made anew. One a process that reads often."""

    def __init__(self) -> None:
        self.workload_rows: KeptRows[models.Workload] = KeptRows()
        self.replica_rows: KeptRows[models.Replica] = KeptRows()
        self.device_rows: KeptRows[models.Device] = KeptRows()
        self.node_rows: KeptRows[models.Node] = KeptRows()
        self.workloads: KeptValues[facts.Workload] = KeptValues()
        self.nodes: KeptValues[facts.Node] = KeptValues()


def load_pools(*, keep: Keep | None = None) -> tuple[models.Cluster, list[Loaded]]:
    """Return the cluster, with the generation read first, and all pools by id. Eleven queries, one more
    while an emergency control is in force.

    With ``keep``, what has not changed since is not made again: the answer is the same.
    """
    cluster = models.Cluster.objects.one()
    pools = list(models.NodePool.objects.order_by("id"))
    rows = _Rows(keep or Keep(), cluster)
    loaded = [_load_pool(pool=pool, cluster=cluster, rows=rows) for pool in pools]
    rows.keep.workloads.turn()
    rows.keep.nodes.turn()
    return cluster, loaded


def load_pool(*, pool_id: int) -> Loaded:
    """Return one pool, as a tick would read it now."""
    cluster = models.Cluster.objects.one()
    pool = models.NodePool.objects.get(pk=pool_id)
    return _load_pool(pool=pool, cluster=cluster, rows=_Rows(Keep(), cluster))


#: Fields of workloads that no rule reads: thousands wait, and each is read in each tick.
_NOT_NEEDED = (
    "command",
    "env",
    "readiness_path",
    "submitted_by",
    "phase_since",
    "ended_at",
    "failure",
    "checkpoint",
    "resumed",
    "progress",
)


#: Fields of replicas that apply and the rules read.
_OF_REPLICAS = (
    "workload_id",
    "node_id",
    "phase",
    "mgpu",
    "booked_at",
    "running_at",
    "vacated_for_id",
)


class _Rows:
    """All rows that any pool needs, grouped by pool."""

    def __init__(self, keep: Keep, cluster: models.Cluster) -> None:
        self.keep = keep
        self.controls = core_controls() if cluster.has_controls else ()
        self.nodes = _group(keep.node_rows.read(models.Node.objects.order_by("name")), "pool_id")
        self.emptied = {
            node.pk  # type: ignore[attr-defined]
            for own in self.nodes.values()
            for node in own
            if node.draining  # type: ignore[attr-defined]
        }
        devices = models.Device.objects.order_by("index")
        self.devices = _group(keep.device_rows.read(devices), "node_id")
        self.department_quotas = _group(
            models.DepartmentQuota.objects.select_related("department").filter(
                department__deleted_at__isnull=True
            ),
            "pool_id",
        )
        self.project_quotas = _group(
            models.ProjectQuota.objects.filter(project__deleted_at__isnull=True), "pool_id"
        )
        self.departments = list(models.Department.objects.filter(deleted_at__isnull=True))
        self.projects = list(models.Project.objects.filter(deleted_at__isnull=True))
        in_play = Q(phase__in=[Phase.PENDING, *HOLDING_PHASES])
        workloads = models.Workload.objects.filter(in_play).defer(*_NOT_NEEDED).order_by("id")
        self.workloads = _group(keep.workload_rows.read(workloads), "pool_id")
        alive = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).order_by("id")
        self.replicas = _group(keep.replica_rows.read(alive.only(*_OF_REPLICAS)), "workload_id")
        holdings = models.ReplicaDevice.objects.filter(replica__ended_at__isnull=True)
        self.holdings: dict[int, list[int]] = defaultdict(list)
        for replica_id, index in holdings.order_by("device__index").values_list(
            "replica_id", "device__index"
        ):
            self.holdings[replica_id].append(index)
        self.nominations = _group(
            models.Nomination.objects.select_related("node").order_by("position"), "workload_id"
        )
        self._departments = {each.pk: each.department_id for each in self.projects}

    def kept_back(
        self, *, workload_id: int, project_id: int, kind: str, phase: str
    ) -> facts.KeptBack | None:
        """Return what keeps starts of a workload back, if an emergency control does."""
        if not self.controls:
            return None
        subject = emergency.Subject(
            workload_id=workload_id,
            project_id=project_id,
            department_id=self._departments.get(project_id, 0),
            kind=Kind(kind),
            phase=Phase(phase),
        )
        return emergency.kept_back(self.controls, subject)


def _group(rows: Iterable[object], key: str) -> dict[int, list[object]]:
    grouped: dict[int, list[object]] = defaultdict(list)
    for row in rows:
        grouped[getattr(row, key)].append(row)
    return grouped


def _load_pool(*, pool: models.NodePool, cluster: models.Cluster, rows: _Rows) -> Loaded:
    nodes: list[models.Node] = rows.nodes.get(pool.pk, [])  # type: ignore[assignment]
    workloads: list[models.Workload] = rows.workloads.get(pool.pk, [])  # type: ignore[assignment]
    replicas: dict[int, models.Replica] = {}
    node_names = {node.pk: node.name for node in nodes}
    core_workloads = []
    for workload in workloads:
        own: list[models.Replica] = rows.replicas.get(workload.pk, [])  # type: ignore[assignment]
        replicas.update({replica.pk: replica for replica in own})
        if Phase(workload.phase) is Phase.PENDING and workload.stop_requested:
            continue
        core_workloads.append(_kept_workload(workload, own, rows, node_names))
    devices: dict[tuple[str, int], models.Device] = {}
    for node in nodes:
        for device in rows.devices.get(node.pk, []):
            devices[(node.name, device.index)] = device  # type: ignore[attr-defined,assignment]
    return Loaded(
        pool=pool,
        snapshot=facts.Snapshot(
            nodes=tuple(_kept_node(node, rows) for node in nodes),
            departments=tuple(_core_departments(pool, rows)),
            projects=tuple(_core_projects(pool, rows)),
            workloads=tuple(core_workloads),
        ),
        policy=_policy(pool, cluster, rows),
        workloads={workload.pk: workload for workload in workloads},
        replicas=replicas,
        nodes={node.name: node for node in nodes},
        devices=devices,
        controls=rows.controls,
    )


def _policy(pool: models.NodePool, cluster: models.Cluster, rows: _Rows) -> facts.Policy:
    return facts.Policy(
        fair_share_reclaim=cluster.fair_share_reclaim,
        spread=pool.spread,
        consolidation=pool.consolidation,
        min_runtime_s=pool.min_runtime_s,
        starvation_after_s=pool.starvation_after_s,
        frozen_until_us=emergency.frozen_until_us(rows.controls),
    )


def _kept_node(node: models.Node, rows: _Rows) -> facts.Node:
    devices: list[models.Device] = rows.devices.get(node.pk, [])  # type: ignore[assignment]
    return rows.keep.nodes.get(node.pk, (node, *devices), lambda: _core_node(node, devices))


def _core_node(node: models.Node, devices: list[models.Device]) -> facts.Node:
    return facts.Node(
        name=node.name,
        devices=tuple(
            facts.Device(
                index=device.index,
                memory_mib=device.memory_mib,
                model=device.model,
                healthy=device.healthy,
            )
            for device in devices
        ),
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        labels=node.labels,
        schedulable=(
            node.state == models.Node.State.READY and not node.cordoned and not node.draining
        ),
    )


def _core_departments(pool: models.NodePool, rows: _Rows) -> list[facts.Department]:
    quotas: dict[int, models.DepartmentQuota] = {
        row.department_id: row  # type: ignore[attr-defined,misc]
        for row in rows.department_quotas.get(pool.pk, [])
    }
    return [
        facts.Department(id=d.pk, name=d.name, quota=_core_quota(quotas.get(d.pk)))
        for d in rows.departments
    ]


def _core_projects(pool: models.NodePool, rows: _Rows) -> list[facts.Project]:
    quotas: dict[int, models.ProjectQuota] = {
        row.project_id: row  # type: ignore[attr-defined,misc]
        for row in rows.project_quotas.get(pool.pk, [])
    }
    return [
        facts.Project(
            id=p.pk,
            name=p.name,
            department_id=p.department_id,
            quota=_core_quota(quotas.get(p.pk)),
        )
        for p in rows.projects
    ]


def _core_quota(row: models.DepartmentQuota | models.ProjectQuota | None) -> facts.QueueQuota:
    if row is None:
        return facts.QueueQuota()
    return facts.QueueQuota(
        quota_mgpu=row.quota_mgpu,
        limit_mgpu=min(row.limit_mgpu, UNLIMITED_MGPU),
        over_quota=row.over_quota,
        rank=row.rank,
        weight_milli=row.weight_milli,
        cpu_quota_milli=row.cpu_quota_milli,
        cpu_limit_milli=row.cpu_limit_milli,
        memory_quota_mib=row.memory_quota_mib,
        memory_limit_mib=row.memory_limit_mib,
    )


def _kept_workload(
    row: models.Workload, own: list[models.Replica], rows: _Rows, node_names: dict[int, str]
) -> facts.Workload:
    nominations: list[models.Nomination] = rows.nominations.get(row.pk, [])  # type: ignore[assignment]
    nominated = tuple(
        facts.Placement(node=n.node.name, devices=tuple(n.device_indices)) for n in nominations
    )
    replicas = [
        (replica, node_names.get(replica.node_id, ""), tuple(rows.holdings.get(replica.pk, ())))
        for replica in own
    ]
    kept_back = rows.kept_back(
        workload_id=row.pk, project_id=row.project_id, kind=row.kind, phase=row.phase
    )
    surge = _surge(row, own, rows)
    made_of = (
        row,
        nominated,
        kept_back,
        surge,
        *(part for replica in replicas for part in replica),
    )
    return rows.keep.workloads.get(
        row.pk,
        made_of,
        lambda: replace(_core_workload(row, replicas, nominated, surge), kept_back=kept_back),
    )


def _surge(row: models.Workload, own: list[models.Replica], rows: _Rows) -> int:
    """Return how many replicas a service needs beside those that it has: one for each on a node that is
    emptied, which goes only when the other answers.
    """
    if not rows.emptied or Kind(row.kind) is not Kind.INFERENCE:
        return 0
    staying = (replica for replica in own if replica.phase != ReplicaPhase.STOPPING)
    return sum(replica.node_id in rows.emptied for replica in staying)


def _core_workload(
    row: models.Workload,
    replicas: list[tuple[models.Replica, str, tuple[int, ...]]],
    nominated: tuple[facts.Placement, ...],
    surge: int,
) -> facts.Workload:
    wanted_max, wanted_min = _wanted(row, [replica for replica, _, _ in replicas], surge)
    return facts.Workload(
        id=row.pk,
        name=row.name,
        project_id=row.project_id,
        kind=Kind(row.kind),
        priority=row.priority,
        preemptible=row.preemptible,
        request=facts.Request(
            devices=row.devices if row.request_mgpu or row.gpu_memory_mib else 0,
            request_mgpu=row.request_mgpu,
            gpu_memory_mib=row.gpu_memory_mib,
            cpu_milli=row.cpu_milli,
            memory_mib=row.memory_mib,
        ),
        submitted_at_us=to_us(row.submitted_at),
        min_replicas=wanted_min,
        max_replicas=wanted_max,
        replicas=tuple(_core_replica(*replica) for replica in replicas),
        node_labels=row.node_labels,
        gpu_models=frozenset(row.gpu_models),
        checkpoint_at_us=optional_us(row.checkpoint_at),
        running_since_us=optional_us(row.running_since),
        backing_off_until_us=optional_us(row.backing_off_until),
        nominated=nominated,
        starving_since_us=optional_us(row.starving_since),
    )


def _wanted(row: models.Workload, own: list[models.Replica], surge: int) -> tuple[int, int]:
    """Return (maximum, minimum) of replicas that are wanted now; a leaving workload wants no more."""
    if row.stop_requested or Phase(row.phase) is Phase.STOPPING:
        live = sum(replica.phase != ReplicaPhase.STOPPING for replica in own)
        return live, min(row.min_replicas, live)
    if Kind(row.kind) is Kind.INFERENCE:
        return row.desired_replicas + surge, row.min_replicas
    return row.max_replicas, row.min_replicas


def _core_replica(replica: models.Replica, node: str, devices: tuple[int, ...]) -> facts.Replica:
    return facts.Replica(
        id=replica.pk,
        placement=facts.Placement(node=node, devices=devices),
        phase=ReplicaPhase(replica.phase),
        started_at_us=to_us(replica.running_at or replica.booked_at),
        vacated_for_id=replica.vacated_for_id,
    )
