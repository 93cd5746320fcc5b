"""What people do with pools, nodes and devices: register, cordon, remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q, QuerySet

from scheduler import events, models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NodeRefused, NotFound, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device of a node that is registered."""

    model: str
    memory_mib: int
    uuid: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node that is registered."""

    name: str
    devices: Sequence[DeviceFacts]
    engine: str = "local"
    cpu_milli: int | None = None
    memory_mib: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@transaction.atomic
def create_pool(
    *, name: str, authority: Authority, now: datetime, scratch: bool = False
) -> models.NodePool:
    """Make a node pool."""
    require_nodes(authority)
    if models.NodePool.objects.filter(name=name).exists():
        raise NodeRefused(
            [
                Problem(
                    field="name",
                    code="is_there_already",
                    message=f"{name} is there already. Choose another name.",
                    params={"name": name},
                )
            ]
        )
    pool = models.NodePool.objects.create(name=name, scratch=scratch)
    audit.record(authority=authority, now=now, action="pool.create", target=pool)
    return pool


@transaction.atomic
def register_node(
    *, pool_id: int, facts: NodeFacts, authority: Authority, now: datetime
) -> models.Node:
    """Add a node with its devices to a pool."""
    require_nodes(authority)
    pool = models.NodePool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    if models.Node.objects.filter(name=facts.name).exists():
        raise NodeRefused(
            [
                Problem(
                    field="name",
                    code="is_there_already",
                    message=f"{facts.name} is there already. Choose another name.",
                    params={"name": facts.name},
                )
            ]
        )
    node = models.Node.objects.create(
        pool=pool,
        name=facts.name,
        engine=facts.engine,
        virtual=any(device.virtual for device in facts.devices),
        gpu_model=facts.devices[0].model if facts.devices else "",
        labels=facts.labels,
        cpu_milli=facts.cpu_milli,
        memory_mib=facts.memory_mib,
        last_seen_at=now,
    )
    models.Device.objects.bulk_create(
        models.Device(
            node=node,
            index=index,
            uuid=device.uuid or _virtual_uuid(node, index),
            model=device.model,
            memory_mib=device.memory_mib,
            virtual=device.virtual,
        )
        for index, device in enumerate(facts.devices)
    )
    audit.record(authority=authority, now=now, action="node.register", target=node)
    _changed()
    return node


@transaction.atomic
def set_cordoned(
    *, node_id: int, cordoned: bool, authority: Authority, now: datetime
) -> models.Node:
    """Keep new work away from a node, or let it come again. What runs there goes on."""
    require_nodes(authority)
    node = models.Node.objects.select_for_update().filter(pk=node_id).first()
    if node is None:
        raise NotFound("node")
    before = {"cordoned": node.cordoned}
    node.cordoned = cordoned
    node.save(update_fields=["cordoned"])
    audit.record(
        authority=authority,
        now=now,
        action="node.cordon" if cordoned else "node.uncordon",
        target=node,
        before=before,
        after={"cordoned": cordoned},
    )
    _changed()
    return node


@transaction.atomic
def change_pool(
    *,
    pool_id: int,
    spread: bool,
    consolidation: bool,
    min_runtime_s: int,
    starvation_after_s: int,
    authority: Authority,
    now: datetime,
) -> models.NodePool:
    """Change how the scheduler places and interrupts work in a pool."""
    require_nodes(authority)
    pool = models.NodePool.objects.select_for_update().filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    after: dict[str, object] = {
        "spread": spread,
        "consolidation": consolidation,
        "min_runtime_s": min_runtime_s,
        "starvation_after_s": starvation_after_s,
    }
    before = {name: getattr(pool, name) for name in after}
    for name, value in after.items():
        setattr(pool, name, value)
    pool.save(update_fields=list(after))
    audit.record(
        authority=authority,
        now=now,
        action="pool.change",
        target=pool,
        before=before,
        after=after,
    )
    _changed()
    return pool


@transaction.atomic
def change_node(
    *,
    node_id: int,
    cordoned: bool,
    labels: dict[str, str],
    authority: Authority,
    now: datetime,
) -> models.Node:
    """Change a node's labels and whether new work may come. What runs there goes on."""
    require_nodes(authority)
    node = models.Node.objects.select_for_update().filter(pk=node_id).first()
    if node is None:
        raise NotFound("node")
    before = {"cordoned": node.cordoned, "labels": node.labels}
    node.cordoned, node.labels = cordoned, labels
    node.save(update_fields=["cordoned", "labels"])
    audit.record(
        authority=authority,
        now=now,
        action="node.change",
        target=node,
        before=before,
        after={"cordoned": cordoned, "labels": labels},
    )
    _changed()
    return node


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedWork:
    """What ran in a pool that was removed: engines still keep the files of it."""

    workload_ids: tuple[int, ...]
    #: (id, attempt) of each replica.
    replicas: tuple[tuple[int, int], ...]
    #: Uploaded file trees that only its assets spoke of.
    trees: tuple[str, ...] = ()


@transaction.atomic
def remove_scratch_pool(*, pool_id: int, authority: Authority, now: datetime) -> RemovedWork:
    """Remove a scratch pool with its nodes, departments, projects and all that is recorded of them.

    Only scratch trees can be removed whole: real ones keep their hours.

    Raises:
        NodeRefused: it is no scratch pool, or something in it still runs.
    """
    require_nodes(authority)
    pool = models.NodePool.objects.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("node pool")
    running = models.Replica.objects.filter(workload__pool=pool).exclude(phase=ReplicaPhase.ENDED)
    if not pool.scratch or running.exists():
        raise NodeRefused([_not_removable(pool)])
    departments = models.Department.objects.filter(
        scratch=True, projects__workloads__pool=pool
    ) | models.Department.objects.filter(scratch=True, quotas__pool=pool)
    department_ids = list(departments.values_list("pk", flat=True).distinct())
    audit.record(authority=authority, now=now, action="pool.remove", target=pool)
    replicas = models.Replica.objects.filter(workload__pool=pool)
    removed = RemovedWork(
        workload_ids=tuple(models.Workload.objects.filter(pool=pool).values_list("pk", flat=True)),
        replicas=tuple(replicas.values_list("pk", "attempt")),
    )
    models.ActivityInterval.objects.filter(replica__in=replicas).delete()
    models.ComputeUse.objects.filter(replica__in=replicas).delete()
    models.AllocationInterval.objects.filter(pool=pool).delete()
    replicas.delete()
    models.Decision.objects.filter(pool=pool).delete()
    models.DecisionParty.objects.filter(project__department_id__in=department_ids).delete()
    models.Workload.objects.filter(pool=pool).delete()
    models.QuotaHistory.objects.filter(department_id__in=department_ids).delete()
    models.QuotaHistory.objects.filter(pool=pool).delete()
    models.CapacityInterval.objects.filter(pool=pool).delete()
    models.Decision.objects.filter(project__department_id__in=department_ids).delete()
    keys = models.GatewayKey.objects.filter(
        Q(department_id__in=department_ids) | Q(project__department_id__in=department_ids)
    )
    models.GatewayUsage.objects.filter(
        Q(key__in=keys) | Q(project__department_id__in=department_ids)
    ).delete()
    keys.delete()
    made_for_it = models.Asset.objects.filter(
        Q(scratch=True, name=pool.name)
        | Q(department_id__in=department_ids)
        | Q(project__department_id__in=department_ids)
    )
    trees = tuple(str(d["digest"]) for d in _definitions(made_for_it) if "digest" in d)
    made_for_it.delete()
    models.Project.objects.filter(department_id__in=department_ids).delete()
    models.Department.objects.filter(pk__in=department_ids).delete()
    models.Node.objects.filter(pool=pool).delete()
    pool.delete()
    _changed()
    return replace(removed, trees=trees)


def _definitions(assets: QuerySet[models.Asset]) -> list[dict[str, object]]:
    return list(assets.values_list("definition", flat=True))


def require_nodes(authority: Authority) -> None:
    """Refuse who may not change nodes, nor try out what that would do.

    Raises:
        NotPermitted.
    """
    if not authority.may(Action.NODES):
        raise NotPermitted(
            "Only a system admin may change nodes, pools, prices and settings. Ask one.",
            code="nodes_are_for_admins",
        )


def _not_removable(pool: models.NodePool) -> Problem:
    params: dict[str, object] = {"name": pool.name}
    if not pool.scratch:
        message = f"{pool.name} is no scratch pool: real ones keep their hours."
        return Problem(field="pool", code="no_scratch_pool", message=message, params=params)
    message = f"{pool.name} still runs work. Stop it first."
    return Problem(field="pool", code="pool_runs_work", message=message, params=params)


def _changed() -> None:
    models.Cluster.objects.filter(pk=1).update(generation=F("generation") + 1)
    events.wake_on_commit()


def _virtual_uuid(node: models.Node, index: int) -> str:
    """Return the name of a device that no GPU is behind; engines know such names by their prefix."""
    return f"VIRTUAL-{node.name}-{index}"
