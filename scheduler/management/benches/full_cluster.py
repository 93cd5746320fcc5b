"""Made-up clusters for benches of pages: pools of any size, half of each GPU's slices borrowed or idle.

Rows are written straight into the tables, as a scheduler would have left them. Only for a database of
the bench's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase

if TYPE_CHECKING:
    from scheduler import models as tables

ROOT = Path(__file__).resolve().parents[3]
DEVICES = 8
DEPARTMENTS, PROJECTS = 4, 20
AT_ONCE = 5_000
PASSWORD = "of-the-bench"
ENDS = (Phase.COMPLETED, Phase.COMPLETED, Phase.COMPLETED, Phase.FAILED, Phase.STOPPED)
KINDS = (Kind.TRAINING, Kind.TRAINING, Kind.INFERENCE, Kind.WORKSPACE)


def environment(folder: str, *, redis_url: str = "redis://127.0.0.1:1/0") -> dict[str, str]:
    """Return the environment of a database of its own; by default nothing listens for its pages."""
    own = {
        "TIDEGATE_DATA": folder,
        "TIDEGATE_DEBUG": "",
        "TIDEGATE_WORKLOADS": "",  # below its own folder, whatever the installation of this machine has
        "TIDEGATE_RAY_ADDRESS": "",
        "DATABASE_URL": "",
        "REDIS_URL": redis_url,
        "TIDEGATE_ADMIN_PASSWORD": PASSWORD,
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
    }
    return {**os.environ, **own}


def prepare(given: dict[str, str]) -> None:
    """Make the tables, the administrator and the pages' files."""
    subprocess.run(
        [sys.executable, "manage.py", "prepare"],
        cwd=ROOT,
        env=given,
        check=True,
        capture_output=True,
    )


def fill_pool(name: str, *, devices: int, now: datetime) -> None:
    """Make a pool of so many GPUs, two slices on each, by the work of twenty projects."""
    from django.db import transaction

    from scheduler import models

    draw = Random(devices)
    with transaction.atomic():
        models.Cluster.objects.update_or_create(id=1, defaults={"cycle": 1, "last_cycle_at": now})
        pool = models.NodePool.objects.create(name=name)
        projects = _units(pool, devices, now)
        nodes = models.Node.objects.bulk_create(
            models.Node(pool=pool, name=f"{name}-{at:04d}", gpu_model="H100", virtual=True)
            for at in range(devices // DEVICES)
        )
        gpus = models.Device.objects.bulk_create(
            models.Device(
                node=node,
                index=index,
                model="H100",
                memory_mib=81_559,
                virtual=True,
                allocated_mgpu=1000,
            )
            for node in nodes
            for index in range(DEVICES)
        )
        places = [gpu for gpu in gpus for _ in range(2)]
        workloads = models.Workload.objects.bulk_create(
            _workload(pool, draw.choice(projects), f"{name}-w{at}", Phase.RUNNING, now, draw)
            for at in range(len(places))
        )
        replicas = models.Replica.objects.bulk_create(
            _replica(workload, gpu, now, draw)
            for workload, gpu in zip(workloads, places, strict=True)
        )
        models.ReplicaDevice.objects.bulk_create(
            models.ReplicaDevice(replica=replica, device=gpu, mgpu=500)
            for replica, gpu in zip(replicas, places, strict=True)
        )
        models.Workload.objects.bulk_create(
            _workload(pool, draw.choice(projects), f"{name}-q{at}", Phase.PENDING, now, draw)
            for at in range(50)
        )


def fill_lists(*, rows: int, now: datetime) -> None:
    """Make so many ended workloads, decisions and audit entries."""
    from django.db import transaction

    from scheduler import models

    draw = Random(rows)
    pool = models.NodePool.objects.order_by("id")[0]
    projects = list(models.Project.objects.filter(quotas__pool=pool).distinct())
    for first in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - first)
        with transaction.atomic():
            workloads = models.Workload.objects.bulk_create(
                _ended(pool, draw.choice(projects), f"old-{first + at}", now, draw)
                for at in range(count)
            )
            models.Decision.objects.bulk_create(
                models.Decision(
                    at=now,
                    cycle=first,
                    verb="place",
                    workload=each,
                    project=each.project,
                    pool=pool,
                    params={"placements": [{"node": "n-1", "devices": [0]}]},
                )
                for each in workloads
            )
            models.AuditEntry.objects.bulk_create(
                models.AuditEntry(
                    at=now, actor="admin", door="page", action="workload.submit",
                    object_kind="workload", object_id=each.pk, object_name=each.name,
                    project_id=each.project_id, department_id=each.project.department_id,
                )
                for each in workloads
            )  # fmt: skip


def _units(pool: tables.NodePool, devices: int, now: datetime) -> list[tables.Project]:
    from scheduler import models

    projects: list[tables.Project] = []
    for at in range(DEPARTMENTS):
        department, _ = models.Department.objects.get_or_create(
            slug=f"d-{at}", defaults={"name": f"d-{at}", "created_at": now}
        )
        models.DepartmentQuota.objects.create(
            pool=pool, department=department, quota_mgpu=devices * 1000 // DEPARTMENTS
        )
        for part in range(PROJECTS // DEPARTMENTS):
            project, _ = models.Project.objects.get_or_create(
                slug=f"p-{at}-{part}",
                defaults={
                    "name": f"p-{at}-{part}",
                    "department": department,
                    "color": (at * 5 + part) % 8 + 1,
                    "created_at": now,
                },
            )
            models.ProjectQuota.objects.create(
                pool=pool, project=project, quota_mgpu=devices * 900 // PROJECTS
            )
            projects.append(project)
    return projects


def _workload(
    pool: tables.NodePool,
    project: tables.Project,
    name: str,
    phase: Phase,
    now: datetime,
    draw: Random,
) -> tables.Workload:
    from scheduler import models

    runs = phase is Phase.RUNNING
    reason = {"code": "InsufficientResources", "resource": "gpu", "free": 0, "largest": 0}
    return models.Workload(
        pool=pool,
        project=project,
        name=name,
        kind=draw.choice(KINDS),
        priority=40,
        preemptible=True,
        request_mgpu=500,
        command=["python", "train.py"],
        phase=phase,
        phase_since=now - timedelta(minutes=draw.randrange(600)),
        running_since=now - timedelta(minutes=draw.randrange(600)) if runs else None,
        ended_at=None,
        submitted_at=now - timedelta(hours=12),
        submitted_by="admin",
        attempts=1,
        reason_code="InsufficientResources" if phase is Phase.PENDING else "",
        reason={**reason, "requested": 500} if phase is Phase.PENDING else {},
    )


def _ended(
    pool: tables.NodePool, project: tables.Project, name: str, now: datetime, draw: Random
) -> tables.Workload:
    """Return work of the last year, of many sorts, so that each order of the table is another."""
    made = _workload(pool, project, name, draw.choice(ENDS), now, draw)
    made.submitted_at = made.phase_since = made.ended_at = now - timedelta(
        seconds=draw.randrange(365 * 86_400)
    )
    made.priority = draw.choice((25, 40, 50, 75, 125))
    made.request_mgpu = draw.choice((90, 250, 500, 1000))
    return made


def _replica(
    workload: tables.Workload, gpu: tables.Device, now: datetime, draw: Random
) -> tables.Replica:
    from scheduler import models

    idle = draw.random() < 0.2
    return models.Replica(
        workload=workload,
        node_id=gpu.node_id,
        phase=ReplicaPhase.RUNNING,
        mgpu=500,
        booked_at=now - timedelta(hours=1),
        utilization_permille=0 if idle else draw.randrange(100, 1000),
        sampled_at=now,
        idle=idle,
    )


def middle_ids(*, rows: int) -> dict[str, int]:
    """Return where the middle of each list of ``fill_lists`` is."""
    from scheduler import models

    return {
        "workloads": models.Workload.objects.order_by("-id")[rows // 2].pk,
        "decisions": models.Decision.objects.order_by("-id")[rows // 2].pk,
        "audit log": models.AuditEntry.objects.order_by("-id")[rows // 2].pk,
    }


def middle_mark(sort: str, *, rows: int) -> str:
    """Return where half of the table of workloads ends, sorted so, as the list writes it into an address."""
    from scheduler import models
    from scheduler.queries import keyset

    column, sign = sort.removeprefix("-"), "-" if sort.startswith("-") else ""
    order = dict.fromkeys([sort, f"{sign}id"])
    found = models.Workload.objects.order_by(*order).values_list(column, "pk")
    return keyset.mark_of(*found[rows // 2])


def change(*, per_s: int, seconds: float) -> None:
    """Change a replica so many times a second, idle or not, leaving or not; say so as the tick does."""
    from django.utils import timezone

    from scheduler import events, models

    draw = Random(per_s)
    ids = list(models.Replica.objects.values_list("id", flat=True))
    began = time.monotonic()
    for number in range(int(seconds * per_s)):
        rows = models.Replica.objects.filter(pk=draw.choice(ids))
        if number % 4:
            rows.update(idle=draw.random() < 0.5, sampled_at=timezone.now())
        else:
            phase = draw.choice((ReplicaPhase.STOPPING, ReplicaPhase.RUNNING))
            rows.update(phase=phase, sampled_at=timezone.now())
        events.publish_changed(cycle=number, at_us=0, generation=number)
        time.sleep(max(0.0, began + (number + 1) / per_s - time.monotonic()))
