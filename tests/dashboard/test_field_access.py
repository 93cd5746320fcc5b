"""Edits that would leave one's rights, and actions on many at once: the same checks at every door."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import User
from access.roles import Role
from access.scopes import authority_of
from dashboard.admin.site import site
from scheduler import models
from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.operations import assets, serve_requests, services, submissions, units, workloads
from scheduler.operations.authority import SYSTEM, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db

UNCHANGED = (
    "project_id", "kind", "priority", "preemptible", "request_mgpu", "submitted_by", "phase",
)  # fmt: skip


def project(name):
    return models.Project.objects.get(name=name)


def refused_lines():
    entries = models.AuditEntry.objects.filter(result="refused").order_by("id")
    return [(each.actor, each.action, each.reason) for each in entries]


# --- A researcher edits what is their own ---------------------------------------------------------


@pytest.fixture
def own(client, researcher):
    """lin's training in nlp-lab, and lin signed in."""
    client.force_login(researcher)
    training = models.Workload.objects.get(name="nlp-pre")
    models.Workload.objects.filter(pk=training.pk).update(submitted_by="lin")
    training.refresh_from_db()
    return training


def submission(**changes):
    values = {"name": "mine", "kind": Kind.TRAINING, "command": ["true"], "request_mgpu": 90}
    return submissions.Submission(**{**values, **changes})


def form(**changes):
    fields = {
        "project": str(project("nlp-lab").pk), "name": "mine", "kind": "training", "gpu": "0.09",
        "min_replicas": "1", "max_replicas": "1", "command": "true", "grace_s": "30",
    }  # fmt: skip
    return {**fields, **changes}


def facts(workload):
    return {name: getattr(models.Workload.objects.get(pk=workload.pk), name) for name in UNCHANGED}


def test_b39_an_edit_with_the_fields_of_something_else_changes_nothing_else(client, own):
    """Given the one form that edits work, when fields come with it that it does not have."""
    before = facts(own)
    client.post(
        reverse("workload_priority", args=[own.pk]),
        {
            "priority": str(own.priority),
            "project": str(project("vision-lab").pk),
            "project_id": str(project("vision-lab").pk),
            "kind": "inference",
            "type": "inference",
            "submitted_by": "admin",
            "owner": "admin",
            "gpu": "4",
            "request_mgpu": "4000",
        },
    )
    assert facts(own) == before


def test_b39_a_borrower_does_not_become_what_can_not_be_interrupted(client, own):
    """Given nlp-lab's guarantee is held, when its training asks for priority 150 or to stay."""
    models.ProjectQuota.objects.filter(project=own.project).update(quota_mgpu=100)
    before = facts(own)
    for fields in ({"priority": "150"}, {"priority": "", "preemptible": "no"}):
        answer = client.post(reverse("workload_priority", args=[own.pk]), fields)
        assert "guarantee" in answer.content.decode(), fields
        assert facts(own) == before


@pytest.mark.parametrize("door", ["form", "template", "request", "operation"])
def test_b39_no_door_puts_a_researchers_model_into_service(client, own, researcher, door):
    """Given free to experiment, not free to serve, when inference is asked for by each door."""
    by = {"authority": authority_of(user=researcher, door="page"), "now": timezone.now()}
    where = {"project_id": project("nlp-lab").pk, "pool_id": own.pool_id}
    if door == "form":
        answer = client.post(reverse("workload_new"), form(kind="inference"))
        assert answer.status_code == 403
        assert refused_lines() == [("lin", "workload_new", "serve_by_request")]
    if door == "template":
        # A template of a service that someone else has made fills the form; sending it is refused alike
        kept = assets.create_asset(
            kind=AssetKind.TEMPLATE,
            draft=assets.AssetDraft(
                name="served",
                definition={"submission": asdict(submission(kind=Kind.INFERENCE))},
            ),
            project_id=where["project_id"],
            authority=SYSTEM,
            now=timezone.now(),
        )
        assert client.get(reverse("workload_new"), {"template": kept.pk}).status_code == 200
        answer = client.post(
            f"{reverse('workload_new')}?template={kept.pk}", form(kind="inference")
        )
        assert answer.status_code == 403
    if door == "request":
        # The way out makes no service by itself, and its author can't approve it
        client.post(reverse("serve_request_new"), form(threshold="2", metric="concurrency"))
        asked = models.ServeRequest.objects.get()
        with pytest.raises(NotPermitted):
            serve_requests.approve_request(request_id=asked.pk, answer="", **by)
    if door == "operation":
        with pytest.raises(NotPermitted):
            workloads.submit_workload(submission=submission(kind=Kind.INFERENCE), **where, **by)
        with pytest.raises(NotPermitted):
            services.submit_service(
                submission=submission(kind=Kind.INFERENCE),
                scaling=services.Scaling(),
                **where,
                **by,
            )
    assert not models.Workload.objects.filter(name="mine").exists()


@pytest.mark.parametrize("missing", [False, True])
def test_b39_nothing_lands_in_a_project_that_is_not_ones_own(client, own, researcher, missing):
    target = 987_654 if missing else project("vision-lab").pk
    by = {"authority": authority_of(user=researcher, door="page"), "now": timezone.now()}
    answer = client.post(reverse("workload_new"), form(project=str(target)))
    assert answer.status_code == 200
    assert "vision-lab" not in answer.content.decode()
    with pytest.raises(NotFound, match="project"):
        workloads.submit_workload(
            project_id=target, pool_id=own.pool_id, submission=submission(), **by
        )
    assert not models.Workload.objects.filter(name="mine").exists()


def test_b39_resubmitting_what_was_another_kind_asks_for_the_right_to_that_kind(client, own):
    """Given a service of nlp-lab that has ended, when a researcher starts it again."""
    ended = models.Workload.objects.get(pk=own.pk)
    ended.pk, ended.name, ended.kind, ended.phase = None, "served", "inference", "stopped"
    ended.save()
    client.post(reverse("workload_start", args=[ended.pk]))
    client.post(reverse("workloads_chosen"), {"do": "start", "id": str(ended.pk)})
    client.post(reverse("workload_delete", args=[ended.pk]))
    assert facts(ended)["phase"] == "stopped"
    assert [reason for _who, _what, reason in refused_lines()] == ["serve_by_request"] * 3


def test_b39_a_project_moves_only_with_rights_in_both_departments(scene):
    """The same for what heads of departments may edit: the state after is asked for too."""
    head = person("wen", Role.DEPARTMENT_ADMIN, project="nlp-lab")
    by = {"authority": authority_of(user=head, door="page"), "now": timezone.now()}
    own = project("nlp-lab")
    with pytest.raises((NotFound, NotPermitted)):
        units.change_project(
            project_id=own.pk,
            name=own.name,
            color=own.color,
            department_id=project("vision-lab").department_id,
            **by,
        )
    assert project("nlp-lab").department.name == "Research"


# --- Several at once ------------------------------------------------------------------------------


def test_b40_an_action_that_is_not_offered_is_forbidden_when_it_is_posted(scene, client, admin):
    """Given what may be changed and not deleted, when "delete selected" is posted all the same."""
    client.force_login(admin)
    other = User.objects.create_user("mei", password="someone-of-tests")
    node = models.Node.objects.first()
    for model, row in (("access_user", other), ("scheduler_node", node)):
        answer = client.post(
            reverse(f"admin:{model}_changelist"),
            {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"},
        )
        assert answer.status_code == 403, model
        assert type(row).objects.filter(pk=row.pk).exists()


def test_b40_of_several_works_each_is_asked_for_by_itself(scene, client):
    """Given an ML engineer, who serves and does not train, when both are chosen to be stopped."""
    client.force_login(person("eva", Role.ML_ENGINEER, project="dev-inference"))
    served = models.Workload.objects.get(name="sql-gen")
    trained = models.Workload.objects.get(pk=served.pk)
    trained.pk, trained.name, trained.kind = None, "trained", "training"
    trained.save()
    foreign = models.Workload.objects.get(name="nlp-pre")
    chosen = {"do": "stop", "id": [served.pk, trained.pk, foreign.pk]}
    answer = client.post(reverse("workloads_chosen"), chosen, follow=True)
    # Then the one goes, the other says why not, and the third is as if it were not chosen
    assert "may only look at workspaces and trainings" in answer.content.decode()
    stopped = models.Workload.objects.filter(stop_requested=True)
    assert [each.name for each in stopped] == ["sql-gen"]
    # And with nothing that may be done it is 403
    only = {"do": "stop", "id": [trained.pk]}
    assert client.post(reverse("workloads_chosen"), only).status_code == 403
    done = models.AuditEntry.objects.filter(action="workload.stop", result="done")
    assert [each.object_name for each in done] == ["sql-gen"]
    assert refused_lines()[0] == ("eva", "workloads_chosen", "work_is_view_only")


def test_b40_no_list_of_the_site_writes_past_the_operations(scene):
    """So that a model that is added can't bring bulk actions of its own."""
    from dashboard.admin.base import OperatedAdmin

    for model, admin in site._registry.items():
        assert isinstance(admin, OperatedAdmin), model
        own = vars(type(admin))
        assert not {"save_model", "delete_model", "delete_queryset", "save_formset"} & set(own), (
            model
        )
        assert not own.get("actions"), model


def test_b40_a_draft_of_quotas_is_refused_whole(scene, client, admin):
    """The product's own page too: one row beyond the department's and none is saved."""
    models.Cluster.objects.update(forbid_oversubscription=True)
    client.force_login(admin)
    rows = {each.project.name: each for each in models.ProjectQuota.objects.all()}
    fields = {"pool": "main", "reason": "more"}
    for name, quota in (("dev-train", "11"), ("dev-inference", "7"), ("vision-lab", "9")):
        row = rows[name]
        key = f"project-{row.project_id}"
        fields |= {
            f"{key}-quota": quota,
            f"{key}-limit": "24",
            f"{key}-over": "on",
            f"{key}-rank": str(row.rank),
            f"{key}-weight": "1",
            f"{key}-version": str(row.version),
        }
    said = client.post(reverse("quota_save"), fields, follow=True).content.decode()
    assert "27.00" in said
    assert {each.project.name: each.quota_mgpu for each in models.ProjectQuota.objects.all()} == {
        name: row.quota_mgpu for name, row in rows.items()
    }


def test_a_refusal_names_its_field(scene):
    with pytest.raises(Refused) as refused:
        workloads.submit_workload(
            project_id=project("nlp-lab").pk,
            pool_id=models.NodePool.objects.get().pk,
            submission=submission(name="Not A Name"),
            authority=SYSTEM,
            now=timezone.now(),
        )
    assert [each.field for each in refused.value.problems] == ["name"]
