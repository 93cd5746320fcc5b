"""Writes ledgers for tests row by row: what was held, guaranteed and measured, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.units import UNLIMITED_MGPU, parse_gpu
from scheduler.operations import units
from scheduler.operations.authority import SYSTEM

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_number = count(1)


def utc(year, month, day, hour=0, minute=0, second=0):
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


class Ledger:
    """A pool of one node, and rows by the names of their projects."""

    def __init__(self, *, pool="default", price=None, gpu_model="L40S"):
        self.pool = models.NodePool.objects.create(name=pool)
        self.node = models.Node.objects.create(pool=self.pool, name=f"{pool}-01", engine="fake")
        models.Device.objects.create(node=self.node, index=0, model=gpu_model)
        self.departments: dict[str, models.Department] = {}
        self.projects: dict[str, models.Project] = {}
        self.workloads: dict[str, models.Workload] = {}
        if price is not None:
            self.price(price, since=LONG_AGO)

    def price(self, price, *, since, gpu_model=""):
        models.GpuPrice.objects.create(gpu_model=gpu_model, price_per_hour=price, from_at=since)
        return self

    def department(self, name, *, quota=None, since=LONG_AGO):
        self.departments[name] = models.Department.objects.create(
            name=name, slug=f"d{next(_number)}", created_at=since
        )
        if quota is not None:
            self._quota(self.departments[name], None, quota, since)
        return self

    def project(self, name, *, of, quota=None, since=LONG_AGO):
        self.projects[name] = models.Project.objects.create(
            department=self.departments[of],
            name=name,
            slug=f"p{next(_number)}",
            created_at=since,
            color=1,
        )
        if quota is not None:
            self.quota(name, quota, since=since)
        return self

    def quota(self, name, quota, *, since):
        """Change a project's guarantee."""
        project = self.projects[name]
        self._quota(project.department, project, quota, since)
        return self

    def department_quota(self, name, quota, *, since):
        self._quota(self.departments[name], None, quota, since)
        return self

    def _quota(self, department, project, quota, since):
        models.QuotaHistory.objects.filter(
            project=project, pool=self.pool, to_us__isnull=True
        ).filter(**({} if project else {"department": department})).update(to_us=to_us(since))
        models.QuotaHistory.objects.create(
            department=department,
            project=project,
            pool=self.pool,
            quota_mgpu=parse_gpu(quota, field="quota"),
            limit_mgpu=UNLIMITED_MGPU,
            over_quota=True,
            from_us=to_us(since),
        )

    def move(self, name, *, to, at):
        """Move a project to another department: its guarantee goes with it, running work too."""
        project = self.projects[name]
        held = models.QuotaHistory.objects.get(project=project, to_us__isnull=True)
        project.department = self.departments[to]
        project.save()
        self._quota(project.department, project, str(held.quota_mgpu / 1000), at)

    def rename(self, name, other, *, at):
        """Give a project another name, as a person does; the ledger's first one stays its key here."""
        project = self.projects[name]
        self.projects[name] = units.change_project(
            project_id=project.pk,
            name=other,
            color=project.color,
            department_id=project.department_id,
            authority=SYSTEM,
            now=at,
        )
        return self

    def delete(self, name, *, at):
        project = self.projects.pop(name)
        project.deleted_at = at
        project.save()
        models.QuotaHistory.objects.filter(project=project, to_us__isnull=True).update(
            to_us=to_us(at)
        )

    def hold(self, project, gpu, since, until, *, workload="", kind="training", user="ann", **more):
        """Let a workload hold a share; ``until`` None: it still does. Returns the interval."""
        name = workload or f"w{next(_number)}"
        work = self.workloads.get(name) or self._workload(name, project, kind, user, since)
        attempt = work.replicas.count() + 1
        mgpu = parse_gpu(gpu, field="gpu")
        replica = models.Replica.objects.create(
            workload=work,
            attempt=attempt,
            node=self.node,
            phase="running" if until is None else "ended",
            ended_at=until,
            mgpu=mgpu,
            booked_at=since,
        )
        return models.AllocationInterval.objects.create(
            workload=work,
            replica=replica,
            attempt=attempt,
            project=work.project,
            department=work.project.department,
            pool=self.pool,
            node=self.node,
            devices=[0],
            gpu_models=[self.node.devices.get(index=0).model],
            mgpu=mgpu,
            kind=kind,
            preemptible=True,
            from_us=to_us(since),
            to_us=None if until is None else to_us(until),
            **more,
        )

    def _workload(self, name, project, kind, user, since):
        self.workloads[name] = models.Workload.objects.create(
            project=self.projects[project],
            pool=self.pool,
            name=name,
            kind=kind,
            priority=50,
            preemptible=True,
            phase_since=since,
            submitted_at=since,
            submitted_by=user,
        )
        return self.workloads[name]

    def seen(self, interval, since, until, *, idle):
        """Record that what an interval holds was idle, or active."""
        return models.ActivityInterval.objects.create(
            replica=interval.replica,
            project=interval.project,
            pool=interval.pool,
            idle=idle,
            mgpu=interval.mgpu,
            from_us=to_us(since),
            to_us=to_us(until),
            open=False,
        )
