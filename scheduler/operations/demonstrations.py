"""Lays a demonstration out in an empty cluster: nodes, hierarchy, quotas and real work."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django.db import transaction

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind
from scheduler.operations import (
    demonstration_assets,
    nodes,
    quotas,
    services,
    submissions,
    units,
    workloads,
)
from scheduler.operations.authority import Authority
from scheduler.operations.demonstration_data import Demonstration, NodeShape, Unit, Work

#: The article's own sum: 26 million over five years for a server of eight GPUs is 74 an hour each.
PRICE_PER_GPU_HOUR = Decimal("74")
WINDOW_S = 20
ZERO_GRACE_S = 10


class ClusterNotEmpty(Exception):
    """The cluster already has nodes; a demonstration is laid out only in an empty one."""


@transaction.atomic
def lay_out(*, demonstration: Demonstration, authority: Authority, now: datetime) -> None:
    """Make everything that a demonstration holds; its work waits for the next tick.

    Raises:
        ClusterNotEmpty: there are nodes already.
    """
    if models.Node.objects.filter(pool__scratch=False).exists():
        raise ClusterNotEmpty(
            "The cluster already has nodes. A demonstration is laid out only in an empty one."
        )
    cluster = models.Cluster.objects.locked()
    cluster.name = demonstration.cluster
    cluster.save(update_fields=["name"])
    models.GpuPrice.objects.get_or_create(
        gpu_model="", from_at=now, defaults={"price_per_hour": PRICE_PER_GPU_HOUR}
    )
    pool = nodes.create_pool(name="default", authority=authority, now=now)
    for shape in demonstration.nodes:
        _make_node(pool, shape, authority, now)
    projects = _make_units(pool, demonstration, authority, now)
    demonstration_assets.define(authority=authority, now=now)
    for position, work in enumerate(demonstration.work):
        _submit(
            pool, projects[work.project], work, authority, now + timedelta(microseconds=position)
        )


def _make_node(
    pool: models.NodePool, shape: NodeShape, authority: Authority, now: datetime
) -> None:
    device = nodes.DeviceFacts(model=shape.model, memory_mib=shape.memory_mib, virtual=True)
    facts = nodes.NodeFacts(name=shape.name, devices=[device] * shape.devices)
    node = nodes.register_node(pool_id=pool.pk, facts=facts, authority=authority, now=now)
    if shape.cordoned:
        nodes.set_cordoned(node_id=node.pk, cordoned=True, authority=authority, now=now)


def _make_units(
    pool: models.NodePool, demonstration: Demonstration, authority: Authority, now: datetime
) -> dict[str, models.Project]:
    departments: dict[str, models.Department] = {}
    for unit in demonstration.departments:
        made = units.create_department(name=unit.name, authority=authority, now=now)
        quotas.set_department_quota(
            department_id=made.pk,
            pool_id=pool.pk,
            values=_values(unit),
            authority=authority,
            now=now,
        )
        departments[unit.name] = made
    projects: dict[str, models.Project] = {}
    for unit in demonstration.projects:
        project = units.create_project(
            department_id=departments[unit.department].pk,
            name=unit.name,
            authority=authority,
            now=now,
        )
        quotas.set_project_quota(
            project_id=project.pk,
            pool_id=pool.pk,
            values=_values(unit),
            authority=authority,
            now=now,
        )
        projects[unit.name] = project
    return projects


def _values(unit: Unit) -> QueueQuota:
    return QueueQuota(
        quota_mgpu=unit.quota_mgpu, limit_mgpu=unit.limit_mgpu, over_quota=unit.over_quota
    )


def _submit(
    pool: models.NodePool,
    project: models.Project,
    work: Work,
    authority: Authority,
    now: datetime,
) -> None:
    whole = work.request_mgpu == WHOLE_GPU_MGPU
    submission = submissions.Submission(
        name=work.name,
        kind=work.kind,
        command=work.command,
        priority=work.priority,
        preemptible=work.preemptible,
        devices=work.devices if whole else 1,
        request_mgpu=work.request_mgpu,
        min_replicas=work.least if work.most else work.replicas,
        max_replicas=work.most or work.replicas,
        gpu_models=[work.gpu_model] if work.gpu_model else [],
        readiness_path="/health" if work.kind is Kind.INFERENCE else "",
        grace_s=work.grace_s,
    )
    where = {"project_id": project.pk, "pool_id": pool.pk}
    if work.most:
        services.submit_service(
            **where, submission=submission, scaling=_scaling(work), authority=authority, now=now
        )
    else:
        workloads.submit_workload(**where, submission=submission, authority=authority, now=now)


def _scaling(work: Work) -> services.Scaling:
    """Return how a service of the demonstration follows its load: within seconds, to be watched."""
    return services.Scaling(
        metric=work.metric,
        threshold=work.threshold,
        stable_window_s=WINDOW_S,
        zero_grace_s=ZERO_GRACE_S,
        drain_s=work.grace_s,
    )
