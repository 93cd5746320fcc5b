"""What the pages read: sums that agree, borrowed marks, and what a reader of one project sees."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from dashboard import live_wire
from scheduler import models
from scheduler.queries import cluster_map, history, nodes, overview, pool_state, workloads
from scheduler.queries.phrases import plain

pytestmark = pytest.mark.django_db


def read(visible):
    return overview.read_overview(visible=visible, now=timezone.now())


def names_outside(project):
    """Return every name of work and projects outside of a project."""
    others = models.Project.objects.exclude(name=project)
    work = models.Workload.objects.exclude(project__name=project)
    return {*others.values_list("name", flat=True), *work.values_list("name", flat=True)}


def test_tiles_map_tree_and_nodes_are_the_same_sums(scene, everything):
    found = read(everything)
    on_map = sum(part.mgpu for parts in found.map.slices.values() for part in parts)
    in_tree = sum(row.held_mgpu for row in found.tree.rows if not row.is_department)
    by_department = sum(row.held_mgpu for row in found.tree.rows if row.is_department)
    on_nodes = sum(row.held_mgpu for row in nodes.list_nodes(visible=everything))
    assert found.tiles.held_mgpu == 59_250
    assert {on_map, in_tree, by_department, on_nodes} == {59_250}
    assert found.tiles.computing_mgpu + found.tiles.idle_mgpu == 59_250


def test_work_that_is_deleted_while_the_page_is_read_is_not_on_it(scene, everything, monkeypatch):
    # Given work that holds 1.00 when its replicas are read, and is gone when workloads are
    gone = models.Replica.objects.filter(mgpu=1000).exclude(phase="ended").first()
    read_workloads = pool_state._workloads

    def after_a_deletion(**wanted):
        models.Workload.objects.filter(pk=gone.workload_id).update(
            phase="stopped", deleted_at=timezone.now()
        )
        return read_workloads(**wanted)

    monkeypatch.setattr(pool_state, "_workloads", after_a_deletion)
    # Then the page is there, without it
    found = read(everything)
    on_map = [part for parts in found.map.slices.values() for part in parts]
    assert gone.workload_id not in {part.workload_id for part in on_map}
    assert sum(part.mgpu for part in on_map) == found.tiles.held_mgpu < 59_250


def test_free_to_place_leaves_out_cordoned_nodes(scene, everything):
    # Given 4.75 free in all, 3.25 of it on a node that takes no new work
    found = read(everything).tiles
    assert found.capacity_mgpu - found.held_mgpu == 4_750
    assert (found.free_mgpu, found.largest_mgpu) == (1_500, 250)


def test_borrowed_is_what_is_held_beyond_the_guarantee(scene, everything):
    rows = {row.name: row for row in read(everything).tree.rows}
    assert rows["dev-train"].borrowed_mgpu == 3_000
    assert rows["prod-training"].borrowed_mgpu == 5_000
    assert rows["nlp-lab"].borrowed_mgpu == 0
    assert rows["Dev and test"].borrowed_mgpu == 3_250


def test_marks_of_borrowing_cover_the_borrowed_amount_and_spare_the_gang(scene, everything):
    """Given dev-train with a gang of 8 and singles, 3.00 borrowed, then three singles are marked."""
    found = read(everything)
    marked = {
        found.map.workloads[part.workload_id].name
        for parts in found.map.slices.values()
        for part in parts
        if part.flags & (cluster_map.BORROWED_SIBLINGS | cluster_map.BORROWED_DEPARTMENTS)
        and found.map.workloads[part.workload_id].name not in ("",)
    }
    assert "llama-sft" not in marked
    borrowed_by_train = [
        name for name in marked if name in {"sft-nightly", "dpo-8b", "dpo-8c", "sweep-2", "sweep-3"}
    ]
    assert len(borrowed_by_train) == 3


def test_the_sentence_on_top_names_the_largest_finding(scene, everything):
    assert plain(read(everything).lede) == (
        "59.25 of 64 GPUs are allocated and 48.00 are computing. 11.25 sit idle, 84% of that in "
        "always-on inference without traffic."
    )


def test_an_eviction_in_progress_says_who_takes_what_from_whom(scene, everything):
    (eviction,) = read(everything).evictions
    text = plain(eviction.text)
    assert text.startswith(
        "nlp-lab / probe-7b takes back 1.00 GPU of its guarantee on h100-03 GPU 7. "
        "dev-train / sft-nightly was borrowing it. sft-nightly saved at step 18,400"
    )


def test_what_waits_stands_with_its_reason(scene, everything):
    probe, seg = read(everything).waiting
    assert plain(probe.why) == "Taking its guarantee back from dev-train."
    assert plain(seg.why) == (
        "Over project limit: vision-lab holds 9.50 of 12.00 and this asks for 3.00."
    )
    assert plain(seg.runs_when) == "Runs when vision-lab releases 0.50."


def test_a_reader_of_one_project_reads_no_name_of_another(scene, nlp_lab):
    """Given a reader of nlp-lab, then no foreign name is in any part of what the page is sent."""
    found = read(nlp_lab)
    sent = json.dumps(live_wire.overview_to_wire(found))
    assert "nlp-pre" in sent
    assert [name for name in names_outside("nlp-lab") if f'"{name}' in sent or name in sent] == []


def test_others_are_one_neutral_amount_on_each_device(scene, nlp_lab):
    found = read(nlp_lab)
    tokens = models.Workload.objects.get(name="tok-bpe").replicas.get().holdings.get()
    own, others = sorted(
        found.map.slices[tokens.device_id], key=lambda part: part.workload_id, reverse=True
    )
    assert (own.mgpu, others.mgpu) == (500, 500)
    assert (others.workload_id, others.flags) == (cluster_map.FOREIGN, 0)


def test_sums_of_a_reader_are_those_of_its_scope(scene, nlp_lab):
    found = read(nlp_lab)
    assert found.partial
    assert found.tiles.held_mgpu == 6_250
    research = next(row for row in found.tree.rows if row.is_department)
    assert (research.known, research.quota_mgpu, research.held_mgpu) == (False, 0, 6_250)


def test_where_the_setting_hides_others_nothing_of_them_is_told(scene, nlp_lab):
    models.Cluster.objects.update(show_others_in_use=False)
    found = read(nlp_lab)
    assert found.tiles.free_mgpu is None
    assert all(part.workload_id for parts in found.map.slices.values() for part in parts)


def test_a_decision_names_a_foreign_victim_as_another_project(scene, nlp_lab, everything):
    wanted = history.DecisionFilter(verb="reclaim")
    (own,) = history.list_decisions(visible=nlp_lab, wanted=wanted)
    (full,) = history.list_decisions(visible=everything, wanted=wanted)
    assert plain(full.text).startswith("nlp-lab / probe-7b over dev-train / sft-nightly")
    assert plain(own.text).startswith("nlp-lab / probe-7b over another project's work")
    explained = history.read_decision(visible=nlp_lab, decision_id=own.id)
    assert [(plain(v.name), v.freed_mgpu) for v in explained.victims] == [
        ("another project's work", None)
    ]


def test_a_foreign_decision_does_not_exist(scene, nlp_lab):
    foreign = models.Decision.objects.get(project__name="vision-lab")
    assert history.read_decision(visible=nlp_lab, decision_id=foreign.pk) is None


def test_a_foreign_workload_does_not_exist(scene, nlp_lab):
    foreign = models.Workload.objects.get(name="llama-70b")
    assert workloads.read_workload(visible=nlp_lab, workload_id=foreign.pk) is None
    page = workloads.list_workloads(visible=nlp_lab, wanted=workloads.WorkloadFilter())
    assert {row.project_name for row in page.rows} == {"nlp-lab"}
    assert page.total == models.Workload.objects.filter(project__name="nlp-lab").count()


def test_the_table_filters_by_project_and_state_and_goes_on_where_a_page_ended(scene, everything):
    wanted = workloads.WorkloadFilter(phase="pending")
    assert [r.name for r in workloads.list_workloads(visible=everything, wanted=wanted).rows] == [
        "seg-xl",
        "probe-7b",
    ]
    first = workloads.list_workloads(visible=everything, wanted=workloads.WorkloadFilter())
    rest = workloads.list_workloads(
        visible=everything, wanted=workloads.WorkloadFilter(after=first.next_after)
    )
    ids = [row.id for row in (*first.rows, *rest.rows)]
    assert len(set(ids)) == len(ids) == first.total
    assert rest.next_after == ""


def test_the_day_ends_at_what_is_held_now(scene, everything):
    day = overview.read_overview_day(visible=everything, pool_id=scene.pk, now=timezone.now())
    assert day.points[-1].held_mgpu == 59_250
    assert day.points[-1].borrowed_mgpu == 9_500
    assert day.points[-1].waiting == models.Workload.objects.filter(phase="pending").count()
    assert day.capacity_mgpu == 64_000
    assert len(day.reclaims) == 1


def test_a_scratch_pool_is_not_among_the_pools(scene, everything):
    models.NodePool.objects.create(name="verify", scratch=True)
    found = overview.read_overview(visible=everything, pool_name="verify", now=timezone.now())
    assert found.pool.name == "main"
