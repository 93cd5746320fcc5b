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
