"""The Emergency page, its API and its banner: who may, what everyone reads, what nobody else does."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import User
from access.roles import Role
from notices import audience
from scheduler import models
from scheduler.operations import emergency
from scheduler.operations.authority import SYSTEM
from tests.api.conftest import Api
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


def pause(client, scope="cluster", **fields):
    values = {"kind": "pause", "scope": scope, "minutes": "60", "reason": "a fire in the hall"}
    return client.post(reverse("emergency_set"), values | fields, follow=True)


def named(name):
    return models.Project.objects.get(name=name)


def in_force():
    return list(
        models.EmergencyControl.objects.filter(ended_at=None).values_list("kind", "project__name")
    )


def test_every_page_of_everyone_says_that_the_cluster_is_paused_until_it_is_ended(
    scene, client, admin, researcher
):
    client.force_login(admin)
    assert "It is in force" in pause(client).content.decode()
    # Then a researcher reads it on each page, without the name of an admin they don't know
    client.force_login(researcher)
    for name in ("overview", "workloads", "account"):
        page = client.get(reverse(name)).content.decode()
        assert "Starts are paused in the whole cluster" in page
        assert "a fire in the hall" in page
        assert "(admin)" not in page
    # When it is ended, then no page says it, and the log has both
    client.force_login(admin)
    client.post(reverse("emergency_end", args=[models.EmergencyControl.objects.get().pk]))
    assert "Starts are paused" not in client.get(reverse("overview")).content.decode()
    actions = models.AuditEntry.objects.order_by("id").values_list("action", "door", "actor")
    assert list(actions) == [
        ("emergency.pause", "page", "admin"), ("emergency.end", "page", "admin"),
    ]  # fmt: skip


def test_a_pause_of_others_is_on_no_page_of_ones_own(scene, client, admin, researcher):
    client.force_login(admin)
    pause(client, f"project-{named('vision-lab').pk}")
    client.force_login(researcher)
    page = client.get(reverse("overview")).content.decode()
    assert "paused" not in page
    assert "vision-lab" not in page


def test_who_may_do_what(scene, client):
    own, other = named("nlp-lab"), named("vision-lab")
    work = models.Workload.objects.get(name="nlp-pre")
    head = Api(person("wen", Role.DEPARTMENT_ADMIN, department="Research"))
    lead = Api(person("mei", Role.PROJECT_ADMIN, project="nlp-lab"))
    worker = Api(person("lin", Role.RESEARCHER, project="nlp-lab"))
    until = (timezone.now() + timedelta(hours=1)).isoformat()

    def answers(caller, **fields):
        return caller.post("/emergency", {"reason": "a fire", "until": until} | fields).status_code

    whole, freeze = {"kind": "pause"}, {"kind": "freeze"}
    department = {"kind": "pause", "department_id": own.department_id}
    project = {"kind": "pause", "project_id": own.pk}
    hold = {"kind": "hold", "workload_id": work.pk}
    foreign = {"kind": "pause", "project_id": other.pk}
    # A department's admin may in the department, a project's admin holds one workload, others nothing;
    # the department of which one has a project only is not one's own
    expected = {
        "head": (head, (403, 403, 201, 201, 201, 404)),
        "lead": (lead, (403, 403, 404, 403, 201, 404)),
        "worker": (worker, (403, 403, 404, 403, 403, 404)),
    }
    for who, (caller, statuses) in expected.items():
        found = tuple(
            answers(caller, **each) for each in (whole, freeze, department, project, hold, foreign)
        )
        assert found == statuses, who
    # And what someone above has set is not theirs to end
    wide = models.EmergencyControl.objects.get(kind="pause", project=own, ended_at=None)
    assert lead("DELETE", f"/emergency/{wide.pk}").status_code == 403
    assert head("DELETE", f"/emergency/{wide.pk}").status_code == 204
    assert head("DELETE", f"/emergency/{wide.pk}").status_code == 409


def test_the_page_offers_what_one_may_and_shows_what_was(scene, client, admin):
    lead = person("mei", Role.PROJECT_ADMIN, project="nlp-lab")
    client.force_login(lead)
    page = client.get(reverse("emergency")).content.decode()
    assert "Hold one workload" in page
    assert "Pause all starts" not in page
    assert "Freeze reclaim" not in page
    client.force_login(admin)
    pause(client)
    pause(client, minutes="120")
    page = client.get(reverse("emergency")).content.decode()
    assert "Freeze reclaim and preemption" in page
    assert page.count("End it now") == 1
    assert "Before" in page
    assert in_force() == [("pause", None)]


def test_those_concerned_are_told(scene, client, admin):
    person("lin", Role.RESEARCHER, project="nlp-lab")
    person("far", Role.RESEARCHER, project="vision-lab")
    work = models.Workload.objects.get(name="nlp-pre")
    models.Workload.objects.filter(pk=work.pk).update(submitted_by="lin")
    client.force_login(admin)
    # When the cluster is paused all are told, of a project's pause those who see it, of a hold the owner
    pause(client)
    pause(client, f"project-{named('nlp-lab').pk}")
    pause(client, kind="hold", workload=str(work.pk))
    audience.tell_announced()
    told = {
        name: models.Notification.objects.filter(username=name, code="emergency_set").count()
        for name in ("lin", "far", "admin")
    }
    assert told == {"lin": 3, "far": 1, "admin": 0}
    client.force_login(User.objects.get(username="lin"))
    page = client.get(reverse("notices")).content.decode()
    assert "is held back until" in page
    assert "a fire in the hall" in page


def test_what_the_api_answers_is_what_the_page_shows(scene, client):
    root = Api(User.objects.create_superuser("root", password="admin-of-tests"))
    until = timezone.now() + timedelta(hours=1)
    made = root.post(
        "/emergency", {"kind": "freeze", "reason": "a fire", "until": until.isoformat()}
    ).json()
    assert (made["kind"], made["scope_kind"], made["set_by"]) == ("freeze", "cluster", "root")
    assert "frozen until" in made["text"]
    assert [each["id"] for each in root.get("/emergency").json()] == [made["id"]]
    emergency.end_control(control_id=made["id"], authority=SYSTEM, now=timezone.now())
    assert root.get("/emergency").json() == []
    [past] = root.get("/emergency?which=past").json()
    assert past["ended_by"] == "system"


def test_a_submission_that_is_tried_out_is_told_that_starts_are_paused(scene, client, admin):
    root = Api(User.objects.create_superuser("root", password="admin-of-tests"))
    asked = {
        "project_id": named("nlp-lab").pk, "name": "mine", "kind": "training",
        "command": ["true"], "request_mgpu": 90,
    }  # fmt: skip
    assert root.post("/workloads/preview", asked).json()["outcome"] != "waits"
    client.force_login(admin)
    pause(client)
    told = root.post("/workloads/preview", asked).json()
    assert told["outcome"] == "waits"
    assert "paused in the whole cluster" in str(told)
