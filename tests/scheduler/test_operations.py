"""What people may do with workloads and quotas, and what they are told where they may not."""

from __future__ import annotations

import pytest

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Kind
from scheduler.operations import quotas, submissions, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import QuotaRefused, StateRefused, SubmitRefused
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db


BAD = [
    # a submission with ...      is told at this field
    ({"name": "Train 1"}, "name"),
    ({"command": []}, "command"),
    ({"priority": 0}, "priority"),
    ({"priority": 1001}, "priority"),
    ({"devices": 0, "request_mgpu": 90}, "devices"),
    ({"request_mgpu": 1001}, "gpu"),
    ({"request_mgpu": 90, "gpu_memory_mib": 100}, "gpu_memory_mib"),
    ({"max_replicas": 2}, "max_replicas"),
    ({"grace_s": 301}, "grace_s"),
    ({"env": {"TIDEGATE_GPU_MILLI": "9"}}, "env"),
    ({"env": {"1X": "9"}}, "env"),
]


@pytest.mark.parametrize(("changes", "field"), BAD)
def test_a_bad_submission_names_the_field_and_leaves_nothing_behind(changes, field):
    place = places.article()
    values = {"name": "train-1", "kind": Kind.TRAINING, "command": ["true"], **changes}
    with pytest.raises(SubmitRefused) as refusal:
        workloads.submit_workload(
            project_id=place.projects["unit-a"].pk,
            pool_id=place.pool.pk,
            submission=submissions.Submission(**values),
            authority=SYSTEM,
            now=START,
        )
    assert [p.field for p in refusal.value.problems] == [field]
    assert not models.Workload.objects.exists()


def test_a_name_is_used_once_in_a_project():
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09")
    with pytest.raises(SubmitRefused, match="already has a workload called train-1"):
        place.submit("train-1", of="unit-a", gpu="0.09")
    place.submit("train-1", of="unit-b", gpu="0.09")


def test_the_priority_trap_is_told_before_submission():
    # Given prod-training with a guarantee of 0, when a training there is raised to high
    place = places.article()
    raised = submissions.Submission(
        name="important",
        kind=Kind.TRAINING,
        command=["true"],
        request_mgpu=90,
        priority=125,
    )
    found = submissions.find_warnings(
        submission=raised, project_id=place.projects["prod-training"].pk, pool_id=place.pool.pk
    )
    # Then the warning has the figures and the way out
    assert [(w.code, w.params["asked"], w.params["quota"]) for w in found] == [
        ("non_preemptible_over_quota", 90, 0)
    ]
    assert "Set “May be interrupted” to yes" in found[0].message


def test_a_waiting_workload_stops_at_once_and_starts_again_with_its_first_submission_time():
    place = places.article()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    workloads.stop_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    assert place.phase("train-1") == "stopped"
    with pytest.raises(StateRefused):
        workloads.stop_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    workloads.start_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    assert place.phase("train-1") == "pending"
    assert place.fresh("train-1").submitted_at == START


def test_a_deleted_waiting_workload_is_gone_and_its_name_is_free():
    place = places.article()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    workloads.delete_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    assert place.fresh("train-1").deleted_at == START
    place.submit("train-1", of="unit-a", gpu="0.09")


def test_each_act_has_one_audit_entry():
    place = places.article()
    models.AuditEntry.objects.all().delete()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    workloads.stop_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    workloads.start_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    workloads.delete_workload(workload_id=workload.pk, authority=SYSTEM, now=START)
    actions = list(models.AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["workload.submit", "workload.stop", "workload.start", "workload.delete"]


def test_over_quota_switched_off_sets_the_limit_to_the_quota():
    place = places.article()
    quotas.set_project_quota(
        project_id=place.projects["unit-a"].pk,
        pool_id=place.pool.pk,
        values=QueueQuota(quota_mgpu=90, over_quota=False),
        authority=SYSTEM,
        now=START,
    )
    row = models.ProjectQuota.objects.get(project=place.projects["unit-a"])
    assert row.limit_mgpu == 90


def test_a_limit_below_the_quota_is_refused_with_both_figures():
    place = places.article()
    with pytest.raises(QuotaRefused, match=r"limit 0\.10 is below the guarantee 0\.20"):
        quotas.set_project_quota(
            project_id=place.projects["unit-a"].pk,
            pool_id=place.pool.pk,
            values=QueueQuota(quota_mgpu=200, limit_mgpu=100),
            authority=SYSTEM,
            now=START,
        )


def test_guarantees_beyond_the_parents_are_saved_with_a_warning_or_refused_by_the_setting():
    # Given dev-test with 0.75, of which its projects were promised 0.66
    place = places.article()
    values = QueueQuota(quota_mgpu=190)

    def raise_unit_a():
        return quotas.set_project_quota(
            project_id=place.projects["unit-a"].pk,
            pool_id=place.pool.pk,
            values=values,
            authority=SYSTEM,
            now=START,
        )

    # When unit-a's 0.09 becomes 0.19, then 0.76 of 0.75 is promised: saved, and said
    warnings = raise_unit_a()
    assert [(w.code, w.params) for w in warnings] == [
        ("oversubscribed_department", {"promised": 760, "available": 750})
    ]
    # And with the setting on it is refused
    models.Cluster.objects.update(forbid_oversubscription=True)
    with pytest.raises(QuotaRefused, match=r"0\.76 of 0\.75"):
        raise_unit_a()


def test_every_change_of_a_quota_is_in_the_ledger():
    place = places.article()
    rows = models.QuotaHistory.objects.filter(project=place.projects["unit-a"])
    assert [(r.quota_mgpu, r.limit_mgpu, r.to_us) for r in rows] == [(90, UNLIMITED_MGPU, None)]
