"""State kept from cycle to cycle against state built anew: the same plan, whatever happened between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import decide
from scheduler.core.kept import Kept, change_between, differing_parts
from scheduler.core.snapshot import Snapshot
from scheduler.core.vocabulary import ReplicaPhase
from tests.core.clusters import (
    NOW_US,
    Chance,
    Drawn,
    Size,
    make_cluster,
    make_quota,
    make_request,
    make_workload,
)
from tests.core.replay import Replay

SECOND_US = 1_000_000


class Walk:
    """A live pool to which one thing after the other happens, decided by both after each."""

    def __init__(self, chance, size):
        self.chance = chance
        self.size = size
        snapshot, policy = make_cluster(chance, size)
        self.policy = replace(
            policy,
            min_runtime_s=chance.one((0, 0, 60)),
            starvation_after_s=chance.one((0, 30)),
            consolidation=chance.is_so(10),
        )
        self.replay = Replay(snapshot, self.policy, now_us=NOW_US, live=True)
        self.facts = snapshot
        self.kept = Kept(snapshot, policy=self.policy, now_us=NOW_US)
        self.last_id = max(each.id for each in snapshot.workloads)
        self.told = []

    def step(self):
        """Let one thing happen, decide by both, and, mostly, carry the plan out.

        Returns the parts in which the two plans differ.
        """
        come_and_go = (self.submit, self.finish)
        others = (self.edit, self.wait, self.stop, self.change_quota, self.fail, self.starve)
        losses = (self.lose_replica, self.turn_node)
        happen = self.chance.one((*come_and_go, *come_and_go, *others, *losses))
        self.told.append(happen.__name__)
        happen()
        plan, rebuilt = self.decide()
        if self.chance.is_so(85):
            self.carry_out(plan)
        return differing_parts(plan, rebuilt)

    def decide(self):
        facts = self.replay.snapshot()
        change = change_between(self.facts, facts)
        self.facts = facts
        now_us = self.replay.now_us
        self.kept.advance(change, now_us=now_us)
        plan = self.kept.decide()
        return plan, decide(snapshot=facts, policy=self.policy, now_us=now_us)

    def carry_out(self, plan):
        """Carry ``plan`` out without checking it: limits may be below what is held by now."""
        replay = self.replay
        replay.check_devices = replay.check_gangs = lambda: None
        replay.check_admission = replay.check_eviction = lambda *_: None
        replay.carry_out(plan)
        for workload_id in plan.starving_ids:
            if replay.workloads[workload_id].starving_since_us is None:
                replay.change(workload_id, starving_since_us=replay.now_us)

    # what happens

    def any_workload(self):
        found = list(self.replay.workloads.values())
        return self.chance.one(found) if found else None

    def submit(self):
        self.last_id += 1
        projects = tuple(self.replay.projects.values())
        workload = make_workload(Waits(self.chance), self.last_id, projects, None, self.size)
        self.replay.workloads[workload.id] = replace(workload, submitted_at_us=self.last_id)

    def finish(self):
        workload = self.any_workload()
        if workload is not None:
            del self.replay.workloads[workload.id]

    def edit(self):
        workload = self.any_workload()
        if workload is None:
            return
        field = self.chance.one(("priority", "preemptible", "max_replicas", "request"))
        if field == "priority":
            value = self.chance.one((25, 40, 80, 125))
        elif field == "preemptible":
            value = not workload.preemptible
        elif field == "max_replicas":
            value = max(1, workload.min_replicas) + self.chance.between(0, 2)
        elif workload.replicas or workload.nominated:
            return
        else:
            value = make_request(self.chance, self.size)
        self.replay.change(workload.id, **{field: value})

    def wait(self):
        self.replay.now_us += self.chance.one((1, 20, 40, 600)) * SECOND_US

    def stop(self):
        """What is being stopped is gone; or only that of one workload."""
        if self.chance.is_so(50):
            self.replay.end_stopping()
            return
        workload = self.any_workload()
        if workload is not None:
            left = tuple(r for r in workload.replicas if r.phase is not ReplicaPhase.STOPPING)
            self.replay.change(workload.id, replicas=left)

    def change_quota(self):
        queues = self.chance.one((self.replay.projects, self.replay.departments))
        queue = self.chance.one(list(queues.values()))
        queues[queue.id] = replace(queue, quota=make_quota(self.chance, 4000))

    def fail(self):
        workload = self.any_workload()
        if workload is not None:
            until_us = self.replay.now_us + self.chance.one((10, 30)) * SECOND_US
            self.replay.change(workload.id, backing_off_until_us=until_us)

    def lose_replica(self):
        workload = self.any_workload()
        if workload is not None and workload.replicas:
            gone = self.chance.one(workload.replicas)
            left = tuple(each for each in workload.replicas if each is not gone)
            self.replay.change(workload.id, replicas=left)

    def turn_node(self):
        """A node is lost or comes back; rarely, it is gone for good."""
        node = self.chance.one(list(self.replay.nodes.values()))
        if self.chance.is_so(20) and len(self.replay.nodes) > 1:
            del self.replay.nodes[node.name]
            return
        self.replay.nodes[node.name] = replace(node, schedulable=not node.schedulable)

    def starve(self):
        workload = self.any_workload()
        if workload is not None and not workload.replicas:
            self.replay.change(workload.id, starving_since_us=self.replay.now_us - 20 * SECOND_US)


class Waits(Chance):
    """Makes workloads that don't run yet."""

    def __init__(self, chance):
        self.between = chance.between

    def is_so(self, percent):
        return percent != 60 and super().is_so(percent)


@given(st.data())
def test_what_is_kept_decides_as_what_is_built_anew(data):
    walk = Walk(Drawn(data.draw), Size())
    for _ in range(12):
        assert walk.step() == [], walk.told


@pytest.mark.parametrize("seed", range(6))
def test_the_same_over_hundreds_of_steps(seed):
    walk = Walk(Chance(seed), Size(nodes=5, projects=6, workloads=20))
    for _ in range(200):
        assert walk.step() == [], walk.told
    assert walk.kept.builds < 100


def test_deciding_twice_gives_the_same_plan_twice():
    snapshot, policy = make_cluster(Chance(3), Size(workloads=20))
    kept = Kept(snapshot, policy=policy, now_us=NOW_US)
    assert kept.decide() == kept.decide()


def test_a_change_names_what_differs_and_nothing_else():
    snapshot, _ = make_cluster(Chance(1), Size(workloads=9))
    first, *rest = snapshot.workloads
    assert rest
    edited = replace(rest[0], priority=99)
    after = replace(snapshot, workloads=(edited, *map(replace, rest[1:])))
    change = change_between(snapshot, after)
    assert (change.workloads, change.gone) == ([edited], (first.id,))
    assert (change.nodes, change.projects, change.departments) == (None, None, None)


def test_the_kept_state_tells_the_facts_that_it_stands_for():
    snapshot, policy = make_cluster(Chance(5), Size(workloads=9))
    kept = Kept(snapshot, policy=policy, now_us=NOW_US)
    kept.decide()
    kept.advance(change_between(snapshot, snapshot), now_us=NOW_US + 1)
    told = kept.snapshot()
    assert isinstance(told, Snapshot)
    assert sorted(w.id for w in told.workloads) == sorted(w.id for w in snapshot.workloads)
