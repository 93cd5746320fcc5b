"""What would make a waiting workload run: the smallest change of each kind, and it is always true."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as drawn

from scheduler.core import preview
from scheduler.core.explain import Way, find_remedies
from scheduler.core.preview import without_workload
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Level
from tests.article.scene import one_card
from tests.builders import Cluster
from tests.core.clusters import NOW_US, Size, clusters


def remedies_of(given, name):
    found = find_remedies(
        snapshot=given.snapshot(),
        policy=given.policy,
        now_us=given.now_us,
        workload_id=given.workloads[name].id,
    )
    return {remedy.way: remedy for remedy in found}


def test_at_the_departments_limit_a_smaller_request_or_a_higher_limit_helps():
    # Given the sixth training at dev-test's limit, with 0.01 of room
    given = one_card()
    for number in range(1, 7):
        given.training(f"train-{number}", of="unit-a", gpu="0.09")
    given.settle()
    found = remedies_of(given, "train-6")
    # Then it would run with 0.01, or with a limit of 0.84, or when a training ends
    assert found[Way.REQUEST].value == 10
    assert (found[Way.LIMIT].value, found[Way.LIMIT].level) == (840, Level.DEPARTMENT)
    assert found[Way.LIMIT].queue_id == given.departments["dev-test"].id
    assert found[Way.END].workload_id == given.workloads["train-1"].id


def test_the_trap_of_the_high_priority_has_a_way_out():
    # Given a training raised to high in a project without a quota
    given = one_card().training("raised", of="prod-training", gpu="0.10", priority=125)
    found = remedies_of(given, "raised")
    # Then keeping it preemptible is enough, and so is a quota of 0.10
    assert Way.PREEMPTIBLE in found
    assert (found[Way.QUOTA].value, found[Way.QUOTA].before) == (100, 0)


def test_a_fragmented_pool_tells_the_largest_share_that_fits():
    given = (
        Cluster(gpus="2")
        .department("d", quota="2")
        .project("p", of="d", quota="2")
        .workspace("left", of="p", gpu="0.50", on=0)
        .workspace("right", of="p", gpu="0.50", on=1)
        .training("wide", of="p", gpu="0.60")
    )
    assert remedies_of(given, "wide")[Way.REQUEST].value == 500


def test_a_gang_is_told_how_many_workers_would_start():
    given = (
        Cluster(gpus="3")
        .department("d", quota="3")
        .project("p", of="d", quota="3")
        .gang("gang", of="p", workers=4, gpu="1")
    )
    assert remedies_of(given, "gang")[Way.MINIMUM].value == 3


def test_what_runs_needs_nothing():
    given = one_card().training("fits", of="unit-a", gpu="0.09")
    assert remedies_of(given, "fits") == {}


@drawn(clusters(Size(workloads=5, is_odd=False)))
def test_every_remedy_is_true_and_is_the_smallest_on_its_side(cluster):
    snapshot, policy = cluster
    for workload in snapshot.workloads[:2]:
        for remedy in find_remedies(
            snapshot=snapshot, policy=policy, now_us=NOW_US, workload_id=workload.id
        ):
            changed = apply(snapshot, workload, remedy)
            seen = preview.preview(snapshot=changed, policy=policy, now_us=NOW_US)
            assert seen.replicas.get(workload.id, 0) > len(workload.replicas), remedy


def apply(snapshot, workload, remedy):
    request = workload.request
    match remedy.way:
        case Way.PREEMPTIBLE:
            return preview.with_workload(snapshot, replace(workload, preemptible=True))
        case Way.REQUEST:
            less = replace(request, request_mgpu=remedy.value)
            return preview.with_workload(snapshot, replace(workload, request=less))
        case Way.DEVICES:
            less = replace(request, devices=remedy.value)
            return preview.with_workload(snapshot, replace(workload, request=less))
        case Way.MINIMUM:
            return preview.with_workload(snapshot, replace(workload, min_replicas=remedy.value))
        case Way.END:
            return without_workload(snapshot, remedy.workload_id)
    queues = snapshot.projects if remedy.level is Level.PROJECT else snapshot.departments
    quota = next(queue.quota for queue in queues if queue.id == remedy.queue_id)
    if remedy.way is Way.QUOTA:
        limit_mgpu = max(remedy.value, quota.limit_mgpu)
        quota = replace(quota, quota_mgpu=remedy.value, limit_mgpu=limit_mgpu)
    else:
        quota = replace(quota, limit_mgpu=remedy.value, over_quota=True)
    return preview.with_quota(snapshot, level=remedy.level, queue_id=remedy.queue_id, quota=quota)


def test_a_preview_of_a_smaller_quota_names_what_would_then_be_reclaimed():
    # Given a training within its quota of 0.30, and a neighbor that lacks its guarantee
    given = (
        Cluster(gpus="1")
        .department("d", quota="1")
        .project("a", of="d", quota="0.30")
        .project("b", of="d", quota="0.80")
        .training("lent", of="a", gpu="0.30", on=0)
        .training("claim", of="b", gpu="0.80")
    )
    before = preview.preview(snapshot=given.snapshot(), policy=given.policy, now_us=given.now_us)
    assert before.interruptions == ()
    # When the quota of 0.30 is to become 0.10
    project = given.projects["a"]
    changed = preview.with_quota(
        given.snapshot(),
        level=Level.PROJECT,
        queue_id=project.id,
        quota=replace(project.quota, quota_mgpu=100, limit_mgpu=UNLIMITED_MGPU),
    )
    after = preview.preview(snapshot=changed, policy=given.policy, now_us=given.now_us)
    # Then the preview says who would be interrupted, and for whom
    difference = preview.compare(before=before, after=after)
    assert difference.starts == (given.workloads["claim"].id,)
    assert difference.stops == (given.workloads["lent"].id,)
    assert [each.served_id for each in difference.interruptions] == [given.workloads["claim"].id]


@pytest.mark.parametrize("drained", ["node-0", "node-1"])
def test_a_preview_of_a_drained_node_tells_where_its_work_would_go(drained):
    given = (
        Cluster(gpus="1", nodes=2)
        .department("d", quota="2")
        .project("p", of="d", quota="2")
        .training("first", of="p", gpu="0.60", on=(0, 0))
        .training("second", of="p", gpu="0.60", on=(1, 0))
    )
    changed = preview.without_node(given.snapshot(), drained)
    after = preview.preview(snapshot=changed, policy=given.policy, now_us=given.now_us)
    names = {w.id: w.name for w in given.workloads.values()}
    assert [names[each] for each in after.replicas] == [
        "second" if drained == "node-0" else "first"
    ]
    assert len(after.holds) == 1
