"""Makes clusters in the database for tests, through the operations that people use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU, parse_gpu
from scheduler.core.vocabulary import Kind
from scheduler.operations import nodes, quotas, submissions, units, workloads
from scheduler.operations.authority import SYSTEM

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


@dataclass(slots=True)
class Place:
    """A pool with its departments, projects and workloads by name."""

    pool: models.NodePool
    departments: dict[str, models.Department] = field(default_factory=dict)
    projects: dict[str, models.Project] = field(default_factory=dict)
    workloads: dict[str, models.Workload] = field(default_factory=dict)

    def department(self, name, *, quota, limit=None, over_quota=True):
        made = units.create_department(name=name, authority=SYSTEM, now=START)
        quotas.set_department_quota(
            department_id=made.pk,
            pool_id=self.pool.pk,
            values=_values(quota, limit, over_quota),
            authority=SYSTEM,
            now=START,
        )
        self.departments[name] = made
        return self

    def project(self, name, *, of, quota, limit=None, over_quota=True):
        made = units.create_project(
            department_id=self.departments[of].pk, name=name, authority=SYSTEM, now=START
        )
        quotas.set_project_quota(
            project_id=made.pk,
            pool_id=self.pool.pk,
            values=_values(quota, limit, over_quota),
            authority=SYSTEM,
            now=START,
        )
        self.projects[name] = made
        return self

    def submit(self, name, *, of, gpu, kind=Kind.TRAINING, at=START, **changes):
        submission = submissions.Submission(
            name=name,
            kind=kind,
            command=changes.pop("command", ["sleep", "600"]),
            request_mgpu=parse_gpu(gpu, field="gpu"),
            **changes,
        )
        made = workloads.submit_workload(
            project_id=self.projects[of].pk,
            pool_id=self.pool.pk,
            submission=submission,
            authority=SYSTEM,
            now=at,
        )
        self.workloads[name] = made
        return made

    def phase(self, name):
        return models.Workload.objects.get(pk=self.workloads[name].pk).phase

    def phases(self):
        return {name: self.phase(name) for name in self.workloads}

    def fresh(self, name):
        return models.Workload.objects.get(pk=self.workloads[name].pk)


def card(*, engine="fake", devices=1, memory_mib=46_068):
    """One node of ``devices`` cards of 46,068 MiB in a pool called "default"."""
    pool = nodes.create_pool(name="default", authority=SYSTEM, now=START)
    device = nodes.DeviceFacts(model="L40S 48 GB", memory_mib=memory_mib, virtual=True)
    nodes.register_node(
        pool_id=pool.pk,
        facts=nodes.NodeFacts(name="card-01", devices=[device] * devices, engine=engine),
        authority=SYSTEM,
        now=START,
    )
    return Place(pool=pool)


def article(**kwargs):
    """The article's card with its two departments and seven projects, nothing running."""
    return (
        card(**kwargs)
        .department("prod", quota="0.25")
        .department("dev-test", quota="0.75", limit="0.76")
        .project("prod-inference", of="prod", quota="0.25")
        .project("prod-training", of="prod", quota="0")
        .project("dev-chat", of="dev-test", quota="0.20")
        .project("dev-embed", of="dev-test", quota="0.10")
        .project("unit-a", of="dev-test", quota="0.09")
        .project("unit-b", of="dev-test", quota="0.09")
        .project("unit-c", of="dev-test", quota="0.18")
    )


def _values(quota, limit, over_quota):
    return QueueQuota(
        quota_mgpu=parse_gpu(quota, field="quota"),
        limit_mgpu=UNLIMITED_MGPU if limit is None else parse_gpu(limit, field="limit"),
        over_quota=over_quota,
    )
