"""Traces as work for the core: openb (fractions, CPU, memory) and Philly (whole devices, gangs, queues)."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from django.core.management.base import CommandError

from scheduler.core.simulation import US, Work
from scheduler.core.snapshot import (
    Department,
    Device,
    Node,
    Project,
    QueueQuota,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Priority

DEVICES = 8
#: The most frequent node of openb.
NODE_CPU_MILLI, NODE_MEMORY_MIB = 96_000, 393_216
#: Beside a Philly job list: virtual cluster, nodes. They become quotas.
VC_NODES_FILE = "philly_vc_nodes.csv"
#: openb's classes that are served first and not interrupted.
_LATENCY_SENSITIVE = frozenset({"LS", "Guaranteed"})


class TraceRefused(CommandError):
    """The file can't be read as one of the traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Work in order of arrival, and the queues' parts of the pool, which are none or any numbers."""

    work: tuple[Work, ...]
    #: Queue name to its part of the guarantees; the order gives project ids from 1 on.
    parts: dict[str, int]

    @property
    def peak_mgpu(self) -> int:
        """What would be held at most if everything started as it came."""
        changes = Counter[tuple[int, bool]]()
        for work in self.work:
            workload, left_us = work.workload, work.left_us or 0
            mgpu = workload.request.devices * workload.request.request_mgpu * workload.max_replicas
            changes[workload.submitted_at_us + left_us, False] -= mgpu
            changes[workload.submitted_at_us, True] += mgpu
        held = peak = 0
        for at in sorted(changes):
            held += changes[at]
            peak = max(peak, held)
        return peak

    def frame(self, *, nodes: int) -> Snapshot:
        """Return a pool of ``nodes`` nodes, its guarantees divided by the parts."""
        total_mgpu = nodes * DEVICES * WHOLE_GPU_MGPU
        whole = sum(self.parts.values()) or 1
        projects = tuple(
            Project(
                id=number,
                name=name,
                department_id=1,
                quota=QueueQuota(quota_mgpu=total_mgpu * part // whole),
            )
            for number, (name, part) in enumerate(self.parts.items(), start=1)
        )
        devices = tuple(Device(index=index) for index in range(DEVICES))
        return Snapshot(
            nodes=tuple(
                Node(
                    name=f"node-{number:04d}",
                    devices=devices,
                    cpu_milli=NODE_CPU_MILLI,
                    memory_mib=NODE_MEMORY_MIB,
                )
                for number in range(nodes)
            ),
            departments=(Department(id=1, name="trace", quota=QueueQuota(quota_mgpu=total_mgpu)),),
            projects=projects,
            workloads=(),
        )


def read_trace(path: Path, *, skip: int, limit: int) -> Trace:
    """Return ``limit`` rows of a trace from row ``skip`` on, told by its columns.

    Raises:
        TraceRefused: there is no such file, or it has other columns.
    """
    try:
        rows = _read_rows(path, skip, limit)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceRefused(f"{path} can't be read: {error}") from error
    if not rows:
        raise TraceRefused(f"{path} has no rows from {skip} on")
    if "vc" in rows[0]:
        return _philly(rows, _vc_nodes(path.parent))
    if "gpu_milli" in rows[0] and "submit_s" in rows[0]:
        return _openb(rows)
    raise TraceRefused(f"{path} has neither the columns of Philly's jobs nor those of openb's pods")


def _read_rows(path: Path, skip: int, limit: int) -> list[dict[str, str]]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as packed:
            return list(islice(csv.DictReader(packed), skip, skip + limit))
    with path.open(encoding="utf-8", newline="") as plain:
        return list(islice(csv.DictReader(plain), skip, skip + limit))


def _vc_nodes(folder: Path) -> dict[str, int]:
    path = folder / VC_NODES_FILE
    if not path.is_file():
        raise TraceRefused(f"{folder} has no {VC_NODES_FILE}: the queues' guarantees come from it")
    return {row["vc"]: int(row["nodes"]) for row in _read_rows(path, 0, 10_000)}


def _philly(rows: Sequence[dict[str, str]], vc_nodes: dict[str, int]) -> Trace:
    names = sorted({*vc_nodes, *(row["vc"] for row in rows)})
    project_of = {name: number for number, name in enumerate(names, start=1)}
    work = []
    for number, row in enumerate(sorted(rows, key=lambda row: int(row["submit_s"])), start=1):
        gpus = int(row["gpus"])
        devices = gpus if gpus <= DEVICES else DEVICES if gpus % DEVICES == 0 else DEVICES // 2
        replicas = -(-gpus // devices)
        workload = _workload(
            number,
            name=row["job_id"],
            project_id=project_of[row["vc"]],
            submit_s=int(row["submit_s"]),
            request=Request(devices=devices, request_mgpu=WHOLE_GPU_MGPU),
        )
        if replicas > 1:
            workload = replace(
                workload, kind=Kind.DISTRIBUTED, min_replicas=replicas, max_replicas=replicas
            )
        work.append(Work(workload=workload, left_us=max(1, int(row["duration_s"])) * US))
    return Trace(work=tuple(work), parts={name: vc_nodes.get(name, 0) for name in names})


def _openb(rows: Sequence[dict[str, str]]) -> Trace:
    parts = {"latency-sensitive": 1, "best-effort": 0}
    work = []
    for number, row in enumerate(sorted(rows, key=lambda row: int(row["submit_s"])), start=1):
        begun_s = int(row["start_s"] or row["submit_s"])
        sensitive = row["qos"] in _LATENCY_SENSITIVE
        devices = int(row["num_gpu"])
        workload = _workload(
            number,
            name=row["pod"],
            project_id=1 if sensitive else 2,
            submit_s=int(row["submit_s"]),
            request=Request(
                devices=devices,
                request_mgpu=WHOLE_GPU_MGPU if devices > 1 else int(row["gpu_milli"]),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
            ),
        )
        if sensitive:
            workload = replace(workload, priority=int(Priority.HIGH), preemptible=False)
        work.append(Work(workload=workload, left_us=max(1, int(row["end_s"]) - begun_s) * US))
    return Trace(work=tuple(work), parts=parts)


def _workload(
    number: int, *, name: str, project_id: int, submit_s: int, request: Request
) -> Workload:
    return Workload(
        id=number,
        name=name,
        project_id=project_id,
        kind=Kind.TRAINING,
        priority=int(Priority.LOW),
        preemptible=True,
        request=request,
        submitted_at_us=submit_s * US,
    )
