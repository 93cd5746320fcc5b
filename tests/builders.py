"""Builders that hide what a test is not about: ``Cluster(gpus="1").department(…).training(…)``.

Amounts are text, as people write them: "0.09". A cluster remembers what runs between cycles, so that a
test can be told as a story: given, when, then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.core.cycle import decide, settle
from scheduler.core.plan import Evict, Start
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
from scheduler.core.units import UNLIMITED_MGPU, format_gpu, parse_gpu
from scheduler.core.vocabulary import DEFAULT_PRIORITY, Kind, ReplicaPhase, is_preemptible

SECOND_US = 1_000_000


class Cluster:
    """One node pool, its queues and its work. Every method but the last few returns the cluster."""

    def __init__(self, *, gpus="1", nodes=1, memory_mib=46068, **policy):
        self.now_us = 1_000_000 * SECOND_US
        self.policy = Policy(**policy)
        self.nodes = [
            Node(
                name=f"node-{number}",
                devices=tuple(
                    Device(index=index, memory_mib=memory_mib) for index in range(int(gpus))
                ),
            )
            for number in range(nodes)
        ]
        self.departments, self.projects, self.workloads = {}, {}, {}
        self._ids = 0

    # given

    def department(self, name, *, quota="0", limit=None, over_quota=True, rank=2, weight=2):
        self.departments[name] = Department(
            id=self._next_id(),
            name=name,
            quota=make_quota(quota, limit, over_quota=over_quota, rank=rank, weight=weight),
        )
        return self

    def project(self, name, *, of, quota="0", limit=None, over_quota=True, rank=2, weight=2):
        self.projects[name] = Project(
            id=self._next_id(),
            name=name,
            department_id=self.departments[of].id,
            quota=make_quota(quota, limit, over_quota=over_quota, rank=rank, weight=weight),
        )
        return self

    def training(self, name, *, of, gpu="0", on=None, **more):
        return self.workload(name, kind=Kind.TRAINING, of=of, gpu=gpu, on=on, **more)

    def inference(self, name, *, of, gpu="0", on=None, **more):
        return self.workload(name, kind=Kind.INFERENCE, of=of, gpu=gpu, on=on, **more)

    def workspace(self, name, *, of, gpu="0", on=None, **more):
        return self.workload(name, kind=Kind.WORKSPACE, of=of, gpu=gpu, on=on, **more)

    def gang(self, name, *, of, workers, gpu="0", on=None, most=None, **more):
        return self.workload(
            name,
            kind=Kind.DISTRIBUTED,
            of=of,
            gpu=gpu,
            on=on,
            replicas=workers,
            most=most or workers,
            **more,
        )

    def workload(
        self, name, *, kind, of, gpu="0", devices=None, mib=None, on=None, priority=None,
        preemptible=None, replicas=1, most=None,
    ):  # fmt: skip
        """Add work that waits, or that runs ``on`` a device, a list of them or a list a replica."""
        number = DEFAULT_PRIORITY[kind] if priority is None else priority
        self.now_us += SECOND_US
        workload = Workload(
            id=self._next_id(),
            name=name,
            project_id=self.projects[of].id,
            kind=kind,
            priority=number,
            preemptible=is_preemptible(priority=number, explicit=preemptible),
            request=make_request(gpu, devices, mib),
            submitted_at_us=self.now_us,
            min_replicas=replicas,
            max_replicas=most or replicas,
        )
        self.workloads[name] = workload
        if on is not None:
            places = on if isinstance(on, list) else [on]
            self._run(workload, [self._placement(workload, place) for place in places])
        return self

    # when

    def settle(self):
        """Run a cycle in which evictions complete at once, and keep what comes of it."""
        plan = settle(snapshot=self.snapshot(), policy=self.policy, now_us=self.now_us)
        for decision in plan.decisions:
            if isinstance(decision, Evict):
                self._evict(decision)
            else:
                self._run(self._by_id(decision.workload_id), decision.placements)
        return Outcome(self, plan)

    def decide(self):
        """Run a live cycle, and keep what comes of it: victims are stopping until ``wait``."""
        plan = decide(snapshot=self.snapshot(), policy=self.policy, now_us=self.now_us)
        for decision in plan.decisions:
            if isinstance(decision, Evict):
                self._interrupt(decision)
            else:
                self._run(self._by_id(decision.workload_id), decision.placements)
        return Outcome(self, plan)

    def wait(self, seconds=30):
        """Let time pass; what was being stopped is gone."""
        self.now_us += seconds * SECOND_US
        for workload in self.workloads.values():
            left = tuple(r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING)
            self._change(workload.name, replicas=left)
        return self

    def finish(self, *names):
        """Take work out of the cluster: it ended, or was deleted."""
        for name in names:
            del self.workloads[name]
        return self

    def lose(self, name, *, keep):
        """Lose all replicas of ``name`` but ``keep``."""
        self._change(name, replicas=self.workloads[name].replicas[:keep])
        return self

    def set_quota(self, name, *, quota, limit=None, over_quota=True):
        """Change a queue's quota and limit."""
        queues = self.projects if name in self.projects else self.departments
        queue = queues[name]
        new = make_quota(quota, limit, over_quota=over_quota, rank=queue.quota.rank, weight=None)
        queues[name] = replace(queue, quota=replace(new, weight_milli=queue.quota.weight_milli))
        return self

    # then

    def snapshot(self):
        return Snapshot(
            nodes=tuple(self.nodes),
            departments=tuple(self.departments.values()),
            projects=tuple(self.projects.values()),
            workloads=tuple(self.workloads.values()),
        )

    def running(self, *, of=None):
        """Return the names of what runs, in the order of submission."""
        return [
            workload.name
            for workload in self.workloads.values()
            if any(r.phase is not ReplicaPhase.STOPPING for r in workload.replicas)
            and (of is None or workload.project_id == self.projects[of].id)
        ]

    def waiting(self):
        return [w.name for w in self.workloads.values() if not w.replicas]

    def replicas(self, name):
        return len(self.workloads[name].replicas)

    def held(self):
        """Return what is held of GPU in all, as text."""
        return format_gpu(
            sum(
                len(w.replicas) * w.request.devices * w.request.request_mgpu
                for w in self.workloads.values()
            )
        )

    # within

    def _next_id(self):
        self._ids += 1
        return self._ids

    def _by_id(self, workload_id):
        return next(w for w in self.workloads.values() if w.id == workload_id)

    def _change(self, name, **fields):
        self.workloads[name] = replace(self.workloads[name], **fields)

    def _placement(self, workload, place):
        if isinstance(place, Placement):
            return place
        node, first = place if isinstance(place, tuple) else (0, place)
        devices = tuple(range(first, first + workload.request.devices))
        return Placement(node=self.nodes[node].name, devices=devices)

    def _run(self, workload, placements):
        replicas = workload.replicas + tuple(
            Replica(id=self._next_id(), placement=placement, started_at_us=self.now_us)
            for placement in placements
        )
        self._change(workload.name, replicas=replicas, running_since_us=self.now_us, nominated=())

    def _evict(self, decision):
        for victim in decision.victims:
            workload = self._by_id(victim.workload_id)
            left = tuple(r for r in workload.replicas if r.id not in victim.replica_ids)
            self._change(workload.name, replicas=left)

    def _interrupt(self, decision):
        for victim in decision.victims:
            workload = self._by_id(victim.workload_id)
            replicas = tuple(
                replace(r, phase=ReplicaPhase.STOPPING, vacated_for_id=decision.served_id)
                if r.id in victim.replica_ids
                else r
                for r in workload.replicas
            )
            self._change(workload.name, replicas=replicas)
        if decision.served_id is not None:
            self._change(self._by_id(decision.served_id).name, nominated=decision.placements)


@dataclass
class Outcome:
    """What came of one cycle, by names."""

    cluster: Cluster
    plan: object

    @property
    def started(self):
        names = {w.id: w.name for w in self.cluster.workloads.values()}
        return [names[d.workload_id] for d in self.plan.decisions if isinstance(d, Start)]

    @property
    def evictions(self):
        """Return (rule, served, [victims]) for every eviction."""
        names = {w.id: w.name for w in self.cluster.workloads.values()}
        return [
            (d.rule.value, names.get(d.served_id), [names[v.workload_id] for v in d.victims])
            for d in self.plan.decisions
            if isinstance(d, Evict)
        ]

    def reason(self, name):
        """Return why ``name`` waits."""
        workload_id = self.cluster.workloads[name].id
        return next(hold for hold in self.plan.holds if hold.workload_id == workload_id)

    def queue(self, hold):
        """Return the name of the queue that ``hold`` speaks of."""
        queues = [*self.cluster.departments.values(), *self.cluster.projects.values()]
        return next(queue.name for queue in queues if queue.id == hold.queue_id)


def make_quota(quota, limit, *, over_quota, rank, weight):
    return QueueQuota(
        quota_mgpu=parse_gpu(quota, field="quota"),
        limit_mgpu=UNLIMITED_MGPU if limit is None else parse_gpu(limit, field="limit"),
        over_quota=over_quota,
        rank=rank,
        weight_milli=(2 if weight is None else weight) * 1000,
    )


def make_request(gpu, devices, mib):
    """Return ``devices`` times ``gpu`` of a device; 1 and more are whole devices."""
    mgpu = parse_gpu(gpu, field="gpu")
    if mib is not None:
        return Request(devices=devices or 1, gpu_memory_mib=mib)
    if mgpu >= 1000:
        assert mgpu % 1000 == 0
        return Request(devices=mgpu // 1000 * (devices or 1), request_mgpu=1000)
    return Request(devices=(devices or 1) if mgpu else 0, request_mgpu=mgpu)
