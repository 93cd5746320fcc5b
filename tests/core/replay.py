"""Carries out a plan on a snapshot, decision by decision, and checks what must hold after each.

At once: victims are gone with the decision. Live: they are stopping and hold their places until
``end_stopping`` ends them, and the served workload has places kept for it.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.plan import Evict, Start
from scheduler.core.snapshot import Replica, Snapshot
from scheduler.core.vocabulary import Kind, ReplicaPhase, Rule
from tests.core.clusters import cost


class Replay:
    def __init__(self, snapshot, policy, *, now_us, live=False):
        self.policy = policy
        self.now_us = now_us
        self.live = live
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.departments = {each.id: each for each in snapshot.departments}
        self.projects = {each.id: each for each in snapshot.projects}
        self.workloads = {each.id: each for each in snapshot.workloads}
        self.bars = {}
        self.last_new_id = min([0, *(r.id for w in snapshot.workloads for r in w.replicas)])
        self.story = []

    def snapshot(self):
        return Snapshot(
            nodes=tuple(self.nodes.values()),
            departments=tuple(self.departments.values()),
            projects=tuple(self.projects.values()),
            workloads=tuple(self.workloads.values()),
        )

    def carry_out(self, plan):
        """Apply ``plan``; every rule about a decision is checked against the state just before it."""
        self.bars = self.read_bars(plan)
        for workload_id in plan.dropped_nominations:
            self.change(workload_id, nominated=())
        for decision in plan.decisions:
            self.story.append(decision)
            if isinstance(decision, Evict):
                self.evict(decision)
            else:
                self.start(decision)
            self.check_devices()
        self.check_gangs()
        return self

    # decisions

    def evict(self, decision):
        if decision.rule is Rule.LOST:
            assert decision.served_id is None
        else:
            self.check_eviction(decision)
        for victim in decision.victims:
            workload = self.workloads[victim.workload_id]
            assert decision.rule is Rule.LOST or workload.preemptible, self.story
            assert victim.replica_ids, self.story
            ids = set(victim.replica_ids)
            live = [r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING]
            assert ids <= {r.id for r in live}, self.story
            assert victim.whole == (len(ids) == len(live)), self.story
            self.stop(workload, ids, decision.served_id)
        for replica_id, placement in decision.moves.items():
            self.move(replica_id, placement, decision.served_id)
        if self.live and decision.served_id is not None:
            served = self.workloads[decision.served_id]
            self.change(served.id, nominated=served.nominated + decision.placements)
            self.check_admission(self.workloads[served.id], decision.placements)

    def stop(self, workload, ids, served_id):
        if not self.live:
            left = tuple(r for r in workload.replicas if r.id not in ids)
        else:
            left = tuple(
                replace(r, phase=ReplicaPhase.STOPPING, vacated_for_id=served_id)
                if r.id in ids
                else r
                for r in workload.replicas
            )
        self.change(workload.id, replicas=left)
        if not any(r.phase is not ReplicaPhase.STOPPING for r in left):
            self.change(workload.id, running_since_us=None)

    def move(self, replica_id, placement, served_id):
        workload = next(
            w for w in self.workloads.values() if any(r.id == replica_id for r in w.replicas)
        )
        assert workload.preemptible
        if self.live:
            self.stop(workload, {replica_id}, served_id)
            self.change(workload.id, nominated=(*self.workloads[workload.id].nominated, placement))
            return
        self.change(
            workload.id,
            replicas=tuple(
                replace(r, placement=placement) if r.id == replica_id else r
                for r in workload.replicas
            ),
        )

    def start(self, decision: Start):
        workload = self.workloads[decision.workload_id]
        if workload.nominated and self.live:
            assert set(decision.placements) <= set(workload.nominated), self.story
            self.change(workload.id, nominated=())
        else:
            self.check_admission(workload, decision.placements)
        replicas = list(workload.replicas)
        for placement in decision.placements:
            self.last_new_id -= 1
            # Only within a plan do new replicas have negative ids.
            replica_id = 10**6 - self.last_new_id if self.live else self.last_new_id
            replicas.append(Replica(id=replica_id, placement=placement, started_at_us=self.now_us))
        since_us = workload.running_since_us
        self.change(
            workload.id,
            replicas=tuple(replicas),
            running_since_us=self.now_us if since_us is None else since_us,
        )
        live = sum(r.phase is not ReplicaPhase.STOPPING for r in replicas)
        assert live <= max(workload.min_replicas, workload.max_replicas), self.story

    def end_stopping(self):
        """End every replica that is being stopped."""
        for workload in list(self.workloads.values()):
            left = tuple(r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING)
            self.change(workload.id, replicas=left)

    def change(self, workload_id, **fields):
        self.workloads[workload_id] = replace(self.workloads[workload_id], **fields)

    # what is held

    def queues_of(self, workload):
        project = self.projects[workload.project_id]
        return project, self.departments[project.department_id]

    def placements(self, workload, *, counted):
        """Return what counts in the checks (``counted``) or what is physically held."""
        nominees = {w.id for w in self.workloads.values() if w.nominated}
        held = [
            r.placement
            for r in workload.replicas
            if not (counted and r.phase is ReplicaPhase.STOPPING and r.vacated_for_id in nominees)
        ]
        return held + (list(workload.nominated) if counted else [])

    def mgpu(self, workload, placement):
        cards = {d.index: d.memory_mib or 0 for d in self.nodes[placement.node].devices}
        return sum(cost(workload.request, cards[index])[0] for index in placement.devices)

    def alloc(self, queue, *, protected=False):
        return sum(
            self.mgpu(workload, placement)
            for workload in self.workloads.values()
            if queue in self.queues_of(workload)
            if not (protected and workload.preemptible)
            for placement in self.placements(workload, counted=True)
        )

    def held_mgpu(self):
        """Return what is physically held of each device, by node and index."""
        held = {(node.name, d.index): 0 for node in self.nodes.values() for d in node.devices}
        for workload in self.workloads.values():
            for placement in self.placements(workload, counted=False):
                cards = {d.index: d.memory_mib or 0 for d in self.nodes[placement.node].devices}
                for index in placement.devices:
                    held[placement.node, index] += cost(workload.request, cards[index])[0]
        return held

    def read_bars(self, plan):
        bars = {}
        for kind, queues, shares in (
            ("d", self.departments, plan.fair_share_departments),
            ("p", self.projects, plan.fair_share_projects),
        ):
            for queue in queues.values():
                bar = queue.quota.quota_mgpu
                if self.policy.fair_share_reclaim:
                    bar = max(bar, shares[queue.id])
                bars[kind, queue.id] = bar
        return bars

    # what must hold

    def check_devices(self):
        """1: no device above 1000 milli or its MiB, whole devices alone, nodes within their means."""
        for node in self.nodes.values():
            for device in node.devices:
                holders = [
                    workload
                    for workload in self.workloads.values()
                    for placement in self.placements(workload, counted=False)
                    if placement.node == node.name and device.index in placement.devices
                ]
                amounts = [cost(w.request, device.memory_mib or 0) for w in holders]
                assert sum(mgpu for mgpu, _ in amounts) <= 1000, self.story
                assert sum(mib for _, mib in amounts) <= (device.memory_mib or 0), self.story
                if any(w.request.is_whole for w in holders):
                    assert len(holders) == 1, self.story
            here = [
                w.request
                for w in self.workloads.values()
                for placement in self.placements(w, counted=False)
                if placement.node == node.name
            ]
            if node.cpu_milli is not None:
                assert sum(request.cpu_milli for request in here) <= node.cpu_milli, self.story
            if node.memory_mib is not None:
                assert sum(request.memory_mib for request in here) <= node.memory_mib, self.story

    def check_admission(self, workload, placements):
        """2: no admission lifts a queue above its effective limit, nor ``protected`` above its quota.

        Asked before the placements of a start are counted, and after those of a nomination are.
        """
        counted = set(workload.nominated) & set(placements) if self.live else set()
        new_mgpu = 0
        if not counted:
            new_mgpu = sum(self.mgpu(workload, placement) for placement in placements)
        if not workload.request.devices:
            return
        for queue in self.queues_of(workload):
            assert self.alloc(queue) + new_mgpu <= queue.quota.effective_limit_mgpu, self.story
            if not workload.preemptible:
                protected = self.alloc(queue, protected=True) + new_mgpu
                assert protected <= queue.quota.quota_mgpu, self.story

    def check_eviction(self, decision):
        """4: reclaim serves an entitled request and takes from queues above their bars; preemption
        stays in its project and goes strictly downwards.
        """
        served = self.workloads[decision.served_id]
        project, department = self.queues_of(served)
        if decision.rule is Rule.RECLAIM:
            least = min(self.mgpu(served, placement) for placement in decision.placements)
            asked = least * len(decision.placements) if served.request.gpu_memory_mib else sum(
                self.mgpu(served, placement) for placement in decision.placements
            )  # fmt: skip
            if not served.request.gpu_memory_mib:
                assert self.alloc(project) + asked <= self.bars["p", project.id], self.story
        for victim in decision.victims:
            loser = self.workloads[victim.workload_id]
            theirs, above = self.queues_of(loser)
            if decision.rule is Rule.PREEMPT:
                assert theirs is project, self.story
                assert loser.priority < served.priority, self.story
            if decision.rule is Rule.RECLAIM and not decision.unstarted_ids:
                # With a start that is taken back its queue may have been above for a moment only.
                assert theirs is not project, self.story
                assert self.alloc(theirs) > self.bars["p", theirs.id], self.story
                if above is not department:
                    assert self.alloc(above) > self.bars["d", above.id], self.story

    def check_gangs(self):
        """9: a gang is whole or absent; what is being stopped is not counted, what is kept is."""
        for workload in self.workloads.values():
            if workload.kind is Kind.INFERENCE:
                continue
            live = [r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING]
            count = len(live) + len(workload.nominated)
            assert count == 0 or count >= workload.min_replicas, self.story
