"""Changing a workload's priority from its page: the way out of the priority trap."""

from __future__ import annotations

import pytest

from access.roles import Role
from scheduler import models
from scheduler.core.vocabulary import Phase
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(client, admin):
    client.force_login(admin)
    return client


def waiting(name, **changes):
    """A training that waits; ``changes`` are laid over it."""
    work = models.Workload.objects.get(name=name)
    assert work.phase == Phase.PENDING
    models.Workload.objects.filter(pk=work.pk).update(**changes)
    work.refresh_from_db()
    return work


def change(client, work, **fields):
    return client.post(f"/workloads/{work.pk}/priority", fields)


def test_the_way_out_of_the_priority_trap_is_on_the_page(scene, pages):
    # Given a training that was raised to high and waits for ever, since it may not borrow
    work = waiting(
        "seg-xl",
        priority=125,
        preemptible=False,
        reason_code="NonPreemptibleOverQuota",
        reason={"allocated": 0, "quota": 0, "requested": 3000},
    )
    page = pages.get(f"/workloads/{work.pk}").content.decode()
    assert "Runs when “May be interrupted” is set to yes" in page
    assert page.count("Change priority") == 2
    # When it is set to yes
    assert change(pages, work, priority="125", preemptible="yes").status_code == 302
    # Then it keeps its priority and may borrow, and both values are in its timeline's event
    work.refresh_from_db()
    assert (work.priority, work.preemptible, work.preemptible_set) == (125, True, True)
    event = models.WorkloadEvent.objects.filter(workload=work).latest("id")
    assert event.params["before"] == {"priority": 125, "preemptible": False}
    # And the form says so the next time
    form = pages.get(f"/workloads/{work.pk}").context["priority_form"]
    assert form.initial == {"priority": 125, "preemptible": "yes"}


def test_the_trap_is_said_before_a_change_and_can_be_confirmed(scene, pages):
    # Given a training that asks for more than its project's guarantee, when it is raised to high
    work = waiting("seg-xl", devices=8, request_mgpu=1000, preemptible=True, priority=40)
    models.ProjectQuota.objects.filter(project=work.project).update(quota_mgpu=0)
    warned = change(pages, work, priority="125", preemptible="")
    # Then nothing is changed, and the open dialog names both figures
    assert warned.status_code == 200
    assert "it asks for 8.00 and the guarantee is 0.00" in warned.content.decode()
    assert "data-open" in warned.content.decode()
    work.refresh_from_db()
    assert work.priority == 40
    # When it is confirmed, then it is changed
    change(pages, work, priority="125", preemptible="", confirmed="yes")
    work.refresh_from_db()
    assert (work.priority, work.preemptible) == (125, False)


def test_a_borrower_stays_interruptible_and_the_field_says_why(scene, pages):
    # Given running work whose project is guaranteed less than it holds
    replica = models.Replica.objects.filter(
        phase="running", workload__preemptible=True, mgpu__gt=0
    ).first()
    work = replica.workload
    models.ProjectQuota.objects.filter(project=work.project).update(quota_mgpu=0)
    # When it shall no longer be interrupted
    answer = change(pages, work, priority=str(work.priority), preemptible="no", confirmed="yes")
    # Then the field says what it holds and the way out
    said = " ".join(answer.context["priority_form"].errors["preemptible"])
    assert "It holds" in said
    assert "Leave “May be interrupted” at yes" in said


def test_a_viewer_may_not_change_a_priority(scene, client):
    client.force_login(person("eye", Role.VIEWER, project="vision-lab"))
    work = models.Workload.objects.get(name="seg-xl")
    page = client.get(f"/workloads/{work.pk}").content.decode()
    assert "Change priority" not in page
    before = work.priority
    answer = client.post(
        f"/workloads/{work.pk}/priority", {"priority": "25", "preemptible": ""}, follow=True
    )
    assert "may only look at" in answer.content.decode()
    work.refresh_from_db()
    assert work.priority == before


# --- Several at once ------------------------------------------------------------------------------


def choose(*names):
    return [models.Workload.objects.get(name=name).pk for name in names]


def test_stopping_several_names_what_is_lost(scene, pages):
    # Given a training that has saved, one that has not, a service, and one that waits
    models.Workload.objects.filter(name="pose-x").update(checkpoint={"epoch": 21})
    models.Workload.objects.filter(name="seg-eval").update(checkpoint={})
    ids = choose("pose-x", "seg-eval", "llama-70b", "seg-xl")
    # When they are chosen to be stopped
    page = pages.get("/workloads/chosen", {"do": "stop", "id": ids}).content.decode()
    # Then each line says what is lost
    assert "Stop 4 workloads?" in page
    assert "saved at epoch 21; what came after may be lost" in page
    assert "has reported no checkpoint: its work so far may be lost" in page
    assert "answers no more requests" in page
    assert "waits; nothing is lost but its turn" in page


def test_each_of_several_has_its_own_audit_entry(scene, pages):
    ids = choose("pose-x", "seg-xl")
    before = models.AuditEntry.objects.count()
    answer = pages.post(
        "/workloads/chosen", {"do": "stop", "id": ids, "back": "state=running"}, follow=True
    )
    assert answer.redirect_chain[-1][0] == "/workloads?state=running"
    assert "2 workloads are being stopped." in answer.content.decode()
    entries = models.AuditEntry.objects.order_by("id")[before:]
    assert [entry.action for entry in entries] == ["workload.stop", "workload.stop"]
    # And what has ended is started again the same way, what has not is left out with the reason
    page = pages.get("/workloads/chosen", {"do": "start", "id": ids}).content.decode()
    assert "Start 1 workload again?" in page
    assert "pose-x (has not ended)" in page
    pages.post("/workloads/chosen", {"do": "start", "id": ids[1:]})
    assert models.Workload.objects.get(name="seg-xl").phase == Phase.PENDING


def test_of_several_a_researcher_stops_only_what_the_role_may(scene, client, researcher):
    # Given a training and a service of the researcher's project, and work of another project
    client.force_login(researcher)
    service = models.Workload.objects.filter(project__name="nlp-lab").exclude(kind="inference")
    own = service.filter(phase="running").first()
    shown = models.Workload.objects.filter(project__name="nlp-lab", phase="running").last()
    models.Workload.objects.filter(pk=shown.pk).update(kind="inference")
    assert own.pk != shown.pk
    ids = [own.pk, shown.pk, *choose("seg-eval")]
    page = client.get("/workloads/chosen", {"do": "stop", "id": ids}).content.decode()
    assert f"{shown.name} (view only)" in page
    assert "seg-eval" not in page
    # When all are sent all the same, then only the training is stopped, and the reason is said
    answer = client.post("/workloads/chosen", {"do": "stop", "id": ids}, follow=True)
    assert "1 workload is being stopped." in answer.content.decode()
    assert "Send a request to serve" in answer.content.decode()
    stopped = models.Workload.objects.filter(stop_requested=True)
    assert [work.pk for work in stopped] == [own.pk]
