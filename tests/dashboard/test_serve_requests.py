"""A researcher asks to serve; who may decides; both are told, and the trail is kept."""

from __future__ import annotations

import pytest
from django.urls import reverse

from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(client, scene):
    """lin's request for a service in nlp-lab, where lee is project admin and eva ML engineer."""
    person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    person("eva", Role.ML_ENGINEER, project="nlp-lab")
    person("vic", Role.VIEWER, project="nlp-lab")
    person("ann", Role.ML_ENGINEER, project="vision-lab")
    client.force_login(person("lin", Role.RESEARCHER, project="nlp-lab"))
    answer = client.post(
        reverse("serve_request_new"),
        {
            "project": str(models.Project.objects.get(name="nlp-lab").pk),
            "name": "chat-small",
            "gpu": "0.25",
            "min_replicas": "0",
            "max_replicas": "2",
            "threshold": "2",
            "metric": "concurrency",
            "command": "python serve.py --model ngram",
            "grace_s": "30",
            "comment": "for the course",
        },
    )
    assert answer.status_code == 302
    return models.ServeRequest.objects.get()


def sign_in(client, name):
    from access.models import User

    client.force_login(User.objects.get(username=name))


def act(client, what, request, **fields):
    return client.post(reverse(f"serve_request_{what}", args=[request.pk]), fields, follow=True)


def told(name):
    rows = models.Notification.objects.filter(username=name).order_by("id")
    return [row.code for row in rows]


def test_those_who_may_decide_are_told_and_nobody_else(asked):
    assert told("lee") == told("eva") == ["serve_requested"]
    assert told("vic") == told("ann") == told("lin") == []
    assert not models.Workload.objects.filter(name="chat-small").exists()


def test_who_asked_and_who_only_looks_can_not_decide(client, asked):
    for name in ("lin", "vic"):
        sign_in(client, name)
        assert "Approve" not in client.get(reverse("serve_requests")).content.decode()
        for what in ("approve", "decline"):
            assert act(client, what, asked, answer="me").status_code == 403
    sign_in(client, "ann")
    assert act(client, "approve", asked).status_code == 404
    assert models.ServeRequest.objects.get().status == "open"


def test_on_approval_it_is_created_in_the_approvers_name_with_the_requester_on_record(
    client, asked
):
    sign_in(client, "eva")
    act(client, "approve", asked, answer="fine")
    made = models.Workload.objects.get(name="chat-small")
    assert (made.kind, made.submitted_by, made.request_mgpu, made.max_replicas) == (
        "inference",
        "eva",
        250,
        2,
    )
    events = models.WorkloadEvent.objects.filter(workload=made).order_by("id")
    assert [event.code for event in events] == ["submitted", "requested"]
    assert events[1].params == {"by": "lin"}
    assert told("lin") == ["serve_approved"]
    # And the page and the bell say so
    sign_in(client, "lin")
    assert "1 new notice" in client.get(reverse("overview")).content.decode()
    page = client.get(reverse("notices")).content.decode()
    assert "approved" in page
    assert "fine" in page
    assert "1 new notice" in page
    client.post(reverse("notices"))
    assert "0 new notices" in client.get(reverse("overview")).content.decode()
    actions = models.AuditEntry.objects.order_by("id").values_list("action", "actor")
    assert list(actions) == [
        ("serve_request.ask", "lin"),
        ("workload.submit", "eva"),
        ("serve_request.approve", "eva"),
    ]


def test_a_decline_needs_a_reason_and_is_final(client, asked):
    sign_in(client, "lee")
    assert "Say why it is declined" in act(client, "decline", asked).content.decode()
    act(client, "decline", asked, answer="no budget this month")
    asked.refresh_from_db()
    assert (asked.status, asked.decided_by, asked.answer) == (
        "declined",
        "lee",
        "no budget this month",
    )
    assert "decided already" in act(client, "approve", asked).content.decode()
    assert told("lin") == ["serve_declined"]


def test_what_can_not_be_created_stays_open_and_says_why(client, asked):
    # Given a workload of that name was made meanwhile
    models.Workload.objects.filter(name="nb-huang").update(name="chat-small")
    sign_in(client, "lee")
    said = act(client, "approve", asked).content.decode()
    assert "already has a workload called chat-small" in said
    assert models.ServeRequest.objects.get().status == "open"


def test_only_who_asked_withdraws(client, asked):
    sign_in(client, "lee")
    assert act(client, "withdraw", asked).status_code == 403
    sign_in(client, "lin")
    act(client, "withdraw", asked)
    assert models.ServeRequest.objects.get().status == "withdrawn"


def test_a_service_that_is_starting_says_what_it_is_waited_for(scene, client, admin):
    service = models.Workload.objects.filter(kind="inference", phase="running").first()
    models.Workload.objects.filter(pk=service.pk).update(phase="starting", start_timeout_s=90)
    client.force_login(admin)
    page = client.get(reverse("workload", args=[service.pk])).content.decode()
    assert "asked for /health on its PORT until it answers" in page
    assert "After 90 s" in page
    # A training is not asked anything
    trained = models.Workload.objects.filter(kind="training", phase="running").first()
    models.Workload.objects.filter(pk=trained.pk).update(phase="starting")
    page = client.get(reverse("workload", args=[trained.pk])).content.decode()
    assert "on its PORT" not in page
