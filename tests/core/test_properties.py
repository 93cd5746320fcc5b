"""What must always hold, on random clusters: the nine invariants, and the slow reference's word."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import decide, settle
from scheduler.core.plan import Evict
from scheduler.core.vocabulary import Rule
from tests.core.clusters import NOW_US, clusters
from tests.core.reference import Reference
from tests.core.replay import Replay


def settled(snapshot, policy):
    """Return (plan, the state after it), with every rule about single decisions checked."""
    plan = settle(snapshot=snapshot, policy=policy, now_us=NOW_US)
    replay = Replay(snapshot, policy, now_us=NOW_US).carry_out(plan)
    return plan, replay


@given(clusters())
def test_devices_limits_victims_and_gangs_hold_after_every_decision(cluster):
    plan, replay = settled(*cluster)

    # Each decision was carried out, and held against every rule, in turn.
    assert tuple(replay.story) == plan.decisions
    assert max(replay.held_mgpu().values(), default=0) <= 1000, replay.story


@given(clusters())
def test_after_a_cycle_deciding_again_changes_nothing(cluster):
    _, policy = cluster
    _, replay = settled(*cluster)
    again = settle(snapshot=replay.snapshot(), policy=policy, now_us=NOW_US)
    assert again.decisions == (), replay.story


@given(clusters())
def test_the_slow_reference_finds_nothing_left_to_do(cluster):
    """Nothing waiting could start without evicting anyone, and no entitled request is left waiting
    that borrowed work could make room for.
    """
    _, policy = cluster
    _, replay = settled(*cluster)
    reference = Reference(replay.snapshot(), policy, NOW_US)
    before = {workload_id: list(places) for workload_id, places in reference.running.items()}
    assert reference.run().running == before, replay.story


@given(clusters())
def test_the_slow_reference_agrees_on_who_runs_where(cluster):
    snapshot, policy = cluster
    _, replay = settled(snapshot, policy)
    reference = Reference(snapshot, policy, NOW_US).run()
    ours = {
        workload.name: sorted((r.placement.node, r.placement.devices) for r in workload.replicas)
        for workload in replay.workloads.values()
    }
    theirs = {
        reference.workloads[workload_id].name: sorted(place[:2] for place in places)
        for workload_id, places in reference.running.items()
    }
    assert ours == theirs, replay.story


@given(clusters())
def test_everything_that_waits_has_a_reason_and_nothing_else_has(cluster):
    plan, replay = settled(*cluster)
    waiting = {hold.workload_id for hold in plan.holds}
    for workload in replay.workloads.values():
        wanted = workload.max_replicas
        assert (workload.id in waiting) == (len(workload.replicas) < wanted)


@given(clusters())
def test_no_rule_but_a_loss_takes_what_is_not_preemptible(cluster):
    snapshot, _ = cluster
    plan, _ = settled(*cluster)
    firm = {workload.id for workload in snapshot.workloads if not workload.preemptible}
    for decision in plan.decisions:
        if isinstance(decision, Evict) and decision.rule is not Rule.LOST:
            assert not firm & {victim.workload_id for victim in decision.victims}


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_means_nothing(cluster, random):
    snapshot, policy = cluster

    def shuffled(rows):
        rows = list(rows)
        random.shuffle(rows)
        return tuple(rows)

    mixed = replace(
        snapshot,
        nodes=tuple(replace(n, devices=shuffled(n.devices)) for n in shuffled(snapshot.nodes)),
        departments=shuffled(snapshot.departments),
        projects=shuffled(snapshot.projects),
        workloads=tuple(
            replace(w, replicas=shuffled(w.replicas)) for w in shuffled(snapshot.workloads)
        ),
    )
    first = settle(snapshot=snapshot, policy=policy, now_us=NOW_US)
    second = settle(snapshot=mixed, policy=policy, now_us=NOW_US)
    assert told(first) == told(second)


@given(clusters())
def test_new_names_in_the_same_order_change_nothing_but_names(cluster):
    snapshot, policy = cluster

    def renamed(rows):
        return tuple(replace(row, name=f"x-{row.name}") for row in rows)

    other = replace(
        snapshot,
        departments=renamed(snapshot.departments),
        projects=renamed(snapshot.projects),
        workloads=renamed(snapshot.workloads),
    )
    first = settle(snapshot=snapshot, policy=policy, now_us=NOW_US)
    assert told(first) == told(settle(snapshot=other, policy=policy, now_us=NOW_US))


@given(clusters())
def test_fair_shares_add_up_and_stay_within_demand_and_pool(cluster):
    snapshot, _ = cluster
    plan, _ = settled(*cluster)
    usable = sum(
        1000 * sum(device.healthy for device in node.devices)
        for node in snapshot.nodes
        if node.schedulable
    )
    for department in snapshot.departments:
        share = plan.fair_share_departments[department.id]
        parts = [
            plan.fair_share_projects[project.id]
            for project in snapshot.projects
            if project.department_id == department.id
        ]
        firm = sum(
            min(project.quota.quota_mgpu, plan.fair_share_projects[project.id])
            for project in snapshot.projects
            if project.department_id == department.id
        )
        assert sum(parts) <= max(share, firm)
    firm = sum(
        min(department.quota.quota_mgpu, plan.fair_share_departments[department.id])
        for department in snapshot.departments
    )
    assert sum(plan.fair_share_departments.values()) <= max(usable, firm)


@given(clusters(), st.integers(1, 3))
def test_live_cycles_keep_every_promise_until_nothing_moves(cluster, pause):
    """Victims hold their devices until they are gone; the served start exactly where it was kept."""
    snapshot, policy = cluster
    replay = Replay(snapshot, policy, now_us=NOW_US, live=True)
    for cycle in range(40):
        plan = decide(snapshot=replay.snapshot(), policy=policy, now_us=NOW_US)
        replay.carry_out(plan)
        assert plan.dropped_nominations == ()
        if cycle % pause == 0 or not plan.decisions:
            replay.end_stopping()
        if not plan.decisions and not any(w.nominated for w in replay.workloads.values()):
            break
    else:
        raise AssertionError(replay.story)


def told(plan):
    """Return what a plan says, without what the order of replicas in the input decides."""
    decisions = []
    for decision in plan.decisions:
        if isinstance(decision, Evict):
            victims = sorted(
                (victim.workload_id, sorted(victim.replica_ids), victim.whole)
                for victim in decision.victims
            )
            decisions.append((decision.rule, decision.served_id, victims, decision.placements))
        else:
            decisions.append((decision.workload_id, decision.placements))
    holds = sorted((hold.workload_id, hold.reason, hold.requested) for hold in plan.holds)
    return decisions, holds
