"""Small random clusters: mixed nodes, deep borrowing, gangs, memory requests, limits below use,
oversubscribed guarantees, elastic work. Drawn by hypothesis in tests, by a seed elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from scheduler.core.snapshot import (
    Department,
    Device,
    Node,
    Placement,
    Policy,
    Project,
    QueueQuota,
    Replica,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Kind

CARDS_MIB = (None, 24576, 46068)
NOW_US = 10_000_000_000


class Chance:
    """Makes choices by a seeded generator; ``Drawn`` makes the same by hypothesis."""

    def __init__(self, seed):
        self._random = Random(seed)

    def between(self, least, most):
        return self._random.randint(least, most)

    def one(self, options):
        return options[self.between(0, len(options) - 1)]

    def is_so(self, percent):
        return self.between(1, 100) > 100 - percent


class Drawn(Chance):
    def __init__(self, draw):
        self._draw = draw

    def between(self, least, most):
        return self._draw(st.integers(least, most))


@dataclass(frozen=True)
class Size:
    nodes: int = 3
    departments: int = 3
    projects: int = 4
    workloads: int = 9
    #: Whether CPU, memory requests, several devices and labels occur.
    is_odd: bool = True


@st.composite
def clusters(draw, size=None):
    return make_cluster(Drawn(draw), size or Size())


def make_cluster(chance, size):
    """Return (snapshot, policy)."""
    nodes = tuple(make_node(chance, n, size) for n in range(chance.between(1, size.nodes)))
    departments = tuple(
        Department(id=n + 1, name=f"d{n}", quota=make_quota(chance, 4000))
        for n in range(chance.between(1, size.departments))
    )
    projects = tuple(
        Project(
            id=n + 1,
            name=f"p{n}",
            department_id=chance.one(departments).id,
            quota=make_quota(chance, 2000),
        )
        for n in range(chance.between(1, size.projects))
    )
    books = {
        (node.name, device.index): [1000, device.memory_mib or 0, device.memory_mib or 0]
        for node in nodes
        for device in node.devices
    }
    hosts = {node.name: [node.cpu_milli, node.memory_mib] for node in nodes}
    workloads = tuple(
        make_workload(chance, n, projects, (nodes, books, hosts), size)
        for n in range(chance.between(1, size.workloads))
    )
    snapshot = Snapshot(
        nodes=nodes, departments=departments, projects=projects, workloads=workloads
    )
    return snapshot, make_policy(chance)


def make_policy(chance):
    return Policy(
        fair_share_reclaim=chance.is_so(20),
        spread=chance.is_so(20),
        min_runtime_s=chance.one((0, 0, 0, 600)),
        starvation_after_s=0,
    )


def make_node(chance, number, size):
    memory_mib = chance.one(CARDS_MIB) if size.is_odd else None
    is_bounded = size.is_odd and chance.is_so(20)
    return Node(
        name=f"n{number}",
        devices=tuple(
            Device(
                index=index,
                memory_mib=memory_mib,
                model=chance.one(("A", "B")) if size.is_odd else "",
                healthy=not chance.is_so(4),
            )
            for index in range(chance.between(1, 4))
        ),
        cpu_milli=8000 if is_bounded else None,
        memory_mib=16000 if is_bounded else None,
        labels={"zone": chance.one(("x", "y"))} if size.is_odd else {},
        schedulable=not chance.is_so(5),
    )


def make_quota(chance, most):
    quota_mgpu = chance.one((0, 0, 90, 300, 500, 1000, 1500, 2000, most))
    limit_mgpu = UNLIMITED_MGPU
    if chance.is_so(30):
        limit_mgpu = quota_mgpu + chance.one((0, 10, 500, 1000))
    return QueueQuota(
        quota_mgpu=quota_mgpu,
        limit_mgpu=limit_mgpu,
        over_quota=not chance.is_so(15),
        rank=chance.between(1, 3),
        weight_milli=chance.one((0, 1000, 2000, 2000, 3000)),
    )


def make_request(chance, size):
    cpu_milli = chance.one((0, 0, 1000, 4000)) if size.is_odd else 0
    memory_mib = chance.one((0, 0, 4000)) if size.is_odd else 0
    sort = chance.between(1, 10)
    if sort <= 4 or (sort > 8 and not size.is_odd):
        return Request(
            devices=1,
            request_mgpu=chance.one((90, 200, 300, 500, 500, 600, 900)),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )
    if sort <= 8:
        return Request(
            devices=chance.one((1, 1, 2, 3)),
            request_mgpu=1000,
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )
    if sort == 9:
        return Request(
            devices=chance.one((1, 1, 2)),
            gpu_memory_mib=chance.one((1, 8192, 20000, 24576)),
            cpu_milli=cpu_milli,
        )
    if chance.is_so(50):
        return Request(devices=2, request_mgpu=chance.one((300, 500)))
    return Request(devices=0, cpu_milli=1000, memory_mib=memory_mib)


def make_workload(chance, number, projects, place, size):
    kind = chance.one((Kind.TRAINING, Kind.TRAINING, Kind.DISTRIBUTED, Kind.INFERENCE))
    least, most = 1, 1
    if kind is not Kind.TRAINING:
        least = chance.between(0 if kind is Kind.INFERENCE else 1, 3)
        most = max(1, least) + chance.one((0, 0, 1, 2))
    workload = Workload(
        id=number + 1,
        name=f"w{number}",
        project_id=chance.one(projects).id,
        kind=kind,
        priority=chance.one((25, 40, 40, 80, 125)),
        preemptible=chance.is_so(75),
        request=make_request(chance, size),
        submitted_at_us=chance.between(0, 5),
        min_replicas=least,
        max_replicas=most,
        gpu_models=frozenset({"A"}) if size.is_odd and chance.is_so(8) else frozenset(),
        node_labels={"zone": "x"} if size.is_odd and chance.is_so(8) else {},
    )
    if not chance.is_so(60):
        return workload
    return run_some(chance, workload, place)


def run_some(chance, workload, place):
    """Let ``workload`` run with at least its minimum, where there is room for it."""
    nodes, books, hosts = place
    least = 1 if workload.kind is Kind.INFERENCE else workload.min_replicas
    count = chance.between(least, max(least, workload.max_replicas))
    replicas = []
    for number in range(count):
        placement = take(chance, workload.request, nodes, books, hosts)
        if placement is None:
            break
        started_at_us = NOW_US - chance.one((100, 500, 1000)) * 1_000_000
        replica_id = workload.id * 100 + number
        replicas.append(Replica(id=replica_id, placement=placement, started_at_us=started_at_us))
    if len(replicas) < least:
        for replica in replicas:
            move(workload.request, replica.placement, books, hosts, 1)
        return workload
    since_us = min(replica.started_at_us for replica in replicas)
    return replace(workload, replicas=tuple(replicas), running_since_us=since_us)


def take(chance, request, nodes, books, hosts):
    """Take the devices of some node that fit ``request``; None where none do."""
    start = chance.between(0, len(nodes) - 1)
    for node in nodes[start:] + nodes[:start]:
        free_cpu, free_memory = hosts[node.name]
        if free_cpu is not None and (
            free_cpu < request.cpu_milli or free_memory < request.memory_mib
        ):
            continue
        able = [
            device.index
            for device in node.devices
            if fits_device(request, books[node.name, device.index])
        ]
        if len(able) < request.devices:
            continue
        at = chance.between(0, len(able) - request.devices)
        placement = Placement(node=node.name, devices=tuple(able[at : at + request.devices]))
        move(request, placement, books, hosts, -1)
        return placement
    return None


def fits_device(request, free):
    mgpu, mib = cost(request, free[2])
    return free[0] >= mgpu and free[1] >= mib


def cost(request, card_mib):
    """Return (mGPU, MiB) of one device; more than there is where a memory request can't fit."""
    if request.gpu_memory_mib is None:
        return request.request_mgpu, request.request_mgpu * card_mib // 1000
    if request.gpu_memory_mib > card_mib:
        return 1001, 0
    return max(1, 1000 * request.gpu_memory_mib // card_mib), request.gpu_memory_mib


def move(request, placement, books, hosts, sign):
    for index in placement.devices:
        free = books[placement.node, index]
        mgpu, mib = cost(request, free[2])
        free[0] += sign * mgpu
        free[1] += sign * mib
    host = hosts[placement.node]
    if host[0] is not None:
        host[0] += sign * request.cpu_milli
        host[1] += sign * request.memory_mib
