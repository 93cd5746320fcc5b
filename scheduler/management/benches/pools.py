"""Pools to measure the core on: large, seeded, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from scheduler.core.plan import Evict, Plan
from scheduler.core.snapshot import (
    Department,
    Device,
    Node,
    Placement,
    Project,
    QueueQuota,
    Replica,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Rank

NOW_US = 1_700_000_000_000_000
DEVICES = 8

#: What one replica asks for, with how often: mostly fractions, whole devices, nodes.
_REQUESTS = (
    (Request(request_mgpu=90), 18),
    (Request(request_mgpu=250), 20),
    (Request(request_mgpu=500), 20),
    (Request(request_mgpu=1000), 24),
    (Request(devices=2, request_mgpu=1000), 10),
    (Request(devices=4, request_mgpu=1000), 5),
    (Request(devices=8, request_mgpu=1000), 3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """How large a pool is."""

    nodes: int
    waiting: int
    projects: int = 200
    departments: int = 20
    #: How much of the pool is held, in percent.
    filled_percent: int = 81
    seed: int = 7


def make_pool(size: PoolSize) -> Snapshot:
    """Return a pool that is held to ``filled_percent``, with ``waiting`` workloads in line."""
    draw = Random(size.seed)
    departments, projects = _queues(size)
    nodes = make_nodes(size.nodes)
    running = _running(size, draw)
    waiting = tuple(
        make_workload(draw, number, size)
        for number in range(len(running), len(running) + size.waiting)
    )
    return Snapshot(
        nodes=nodes, departments=departments, projects=projects, workloads=(*running, *waiting)
    )


def make_nodes(count: int) -> tuple[Node, ...]:
    """Return ``count`` like nodes of eight devices."""
    devices = tuple(Device(index=index, memory_mib=81920, model="H") for index in range(DEVICES))
    return tuple(Node(name=f"node-{number:05d}", devices=devices) for number in range(count))


def _queues(size: PoolSize) -> tuple[tuple[Department, ...], tuple[Project, ...]]:
    total_mgpu = size.nodes * DEVICES * WHOLE_GPU_MGPU
    ranks = tuple(Rank)
    departments = tuple(
        Department(
            id=number + 1,
            name=f"department-{number:02d}",
            quota=QueueQuota(
                quota_mgpu=total_mgpu // size.departments, rank=ranks[number % len(ranks)]
            ),
        )
        for number in range(size.departments)
    )
    projects = tuple(
        Project(
            id=number + 1,
            name=f"project-{number:03d}",
            department_id=number % size.departments + 1,
            quota=QueueQuota(
                quota_mgpu=total_mgpu // size.projects * (number % 3) // 2,
                limit_mgpu=total_mgpu // size.projects * 4,
                rank=ranks[number // 7 % len(ranks)],
                weight_milli=(number % 4 + 1) * 1000,
            ),
        )
        for number in range(size.projects)
    )
    return departments, projects


def _running(size: PoolSize, draw: Random) -> tuple[Workload, ...]:
    """Fill node after node with what its devices still take, leaving some devices free."""
    workloads: list[Workload] = []
    replica_id = 0
    for node in range(size.nodes):
        for index in range(DEVICES):
            if draw.randrange(100) >= size.filled_percent + 4:
                continue
            parts = draw.choice(
                ((1000,), (1000,), (500, 250, 250), (500, 500), (250, 250, 250), (90,) * 10)
            )
            for part in parts:
                number = len(workloads)
                replica_id += 1
                base = make_workload(draw, number, size)
                workloads.append(
                    replace(
                        base,
                        kind=Kind.TRAINING,
                        request=Request(request_mgpu=part),
                        min_replicas=1,
                        max_replicas=1,
                        running_since_us=NOW_US - number * 1000,
                        replicas=(
                            Replica(
                                id=replica_id,
                                placement=Placement(node=f"node-{node:05d}", devices=(index,)),
                                started_at_us=NOW_US - number * 1000,
                            ),
                        ),
                    )
                )
    return tuple(workloads)


def make_workload(draw: Random, number: int, size: PoolSize) -> Workload:
    """Return one that waits, of a project by its number."""
    request = draw.choices([row[0] for row in _REQUESTS], [row[1] for row in _REQUESTS])[0]
    replicas = 1
    kind = Kind.TRAINING
    if request.devices == DEVICES:
        kind, replicas = Kind.DISTRIBUTED, draw.randint(2, 8)
    preemptible = draw.randrange(100) < 85
    return Workload(
        id=number + 1,
        name=f"work-{number:06d}",
        project_id=number % size.projects + 1,
        kind=kind,
        priority=40 if preemptible else 125,
        preemptible=preemptible,
        request=request,
        submitted_at_us=NOW_US - 10**12 + number,
        min_replicas=replicas,
        max_replicas=replicas,
    )


def make_fill(*, nodes: int, waiting: int, projects: int = 1) -> Snapshot:
    """Return an empty pool with ``waiting`` one-device trainings."""
    size = PoolSize(nodes=nodes, waiting=waiting, projects=projects, departments=min(20, projects))
    quota_mgpu = nodes * DEVICES * WHOLE_GPU_MGPU
    return Snapshot(
        nodes=make_nodes(nodes),
        departments=tuple(
            Department(
                id=n + 1, name=f"d{n}", quota=QueueQuota(quota_mgpu=quota_mgpu // size.departments)
            )
            for n in range(size.departments)
        ),
        projects=tuple(
            Project(
                id=n + 1,
                name=f"p{n}",
                department_id=n % size.departments + 1,
                quota=QueueQuota(quota_mgpu=quota_mgpu // projects),
            )
            for n in range(projects)
        ),
        workloads=tuple(_single(n, n % projects + 1) for n in range(waiting)),
    )


def make_takeover(*, nodes: int, claim_nodes: int = 1) -> Snapshot:
    """Return a pool full of one project's singles, and an entitled project that wants it all: in
    singles, or (``claim_nodes`` above 1) as one gang over that many nodes.
    """
    devices = nodes * DEVICES
    quota_mgpu = devices * WHOLE_GPU_MGPU
    borrowed = tuple(
        replace(
            _single(n, 1),
            running_since_us=NOW_US - n,
            replicas=(
                Replica(
                    id=n + 1,
                    placement=Placement(node=f"node-{n // DEVICES:05d}", devices=(n % DEVICES,)),
                    started_at_us=NOW_US - n,
                ),
            ),
        )
        for n in range(devices)
    )
    if claim_nodes > 1:
        gang = replace(
            _single(devices, 2),
            kind=Kind.DISTRIBUTED,
            request=Request(devices=DEVICES, request_mgpu=1000),
            min_replicas=claim_nodes,
            max_replicas=claim_nodes,
        )
        claims: tuple[Workload, ...] = (gang,)
    else:
        claims = tuple(_single(devices + n, 2) for n in range(devices))
    return Snapshot(
        nodes=make_nodes(nodes),
        departments=(Department(id=1, name="d", quota=QueueQuota(quota_mgpu=quota_mgpu)),),
        projects=(
            Project(id=1, name="borrower", department_id=1, quota=QueueQuota()),
            Project(id=2, name="owner", department_id=1, quota=QueueQuota(quota_mgpu=quota_mgpu)),
        ),
        workloads=(*borrowed, *claims),
    )


def _single(number: int, project_id: int) -> Workload:
    return Workload(
        id=number + 1,
        name=f"single-{number:06d}",
        project_id=project_id,
        kind=Kind.TRAINING,
        priority=40,
        preemptible=True,
        request=_WHOLE,
        submitted_at_us=number,
    )


_WHOLE = Request(request_mgpu=WHOLE_GPU_MGPU)


def carry_out(snapshot: Snapshot, plan: Plan, *, now_us: int) -> Snapshot:
    """Return ``snapshot`` after ``plan``, made where evictions complete at once."""
    held = {each.id: {r.id: r for r in each.replicas} for each in snapshot.workloads}
    new_id = 0
    for decision in plan.decisions:
        if isinstance(decision, Evict):
            for victim in decision.victims:
                for replica_id in victim.replica_ids:
                    del held[victim.workload_id][replica_id]
            continue
        for placement in decision.placements:
            new_id -= 1
            held[decision.workload_id][new_id] = Replica(
                id=new_id, placement=placement, started_at_us=now_us
            )
    fresh = 10**9
    workloads = []
    for each in snapshot.workloads:
        replicas = tuple(
            replace(r, id=fresh - r.id) if r.id < 0 else r for r in held[each.id].values()
        )
        since_us = (each.running_since_us or now_us) if replicas else None
        workloads.append(replace(each, replicas=replicas, running_since_us=since_us))
    return replace(snapshot, workloads=tuple(workloads))


def let_end(snapshot: Snapshot, *, down_to_percent: int, seed: int) -> Snapshot:
    """Return ``snapshot`` after random running work ended, until no more than that is held."""
    total = sum(len(node.devices) for node in snapshot.nodes) * WHOLE_GPU_MGPU
    running = [each for each in snapshot.workloads if each.replicas]
    Random(seed).shuffle(running)
    held = sum(_held_mgpu(each) for each in running)
    ended = set()
    for each in running:
        if held * 100 <= total * down_to_percent:
            break
        ended.add(each.id)
        held -= _held_mgpu(each)
    left = tuple(each for each in snapshot.workloads if each.id not in ended)
    return replace(snapshot, workloads=left)


def _held_mgpu(workload: Workload) -> int:
    return len(workload.replicas) * workload.request.devices * workload.request.request_mgpu
