"""The Idle time page: what can be given back, keep, and the rules."""

from __future__ import annotations

import html
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def idle_desk(scene):
    """nlp-lab's nb-huang is idle for 40 of the 60 minutes that its rule allows; lin owns it."""
    now = timezone.now()
    desk = models.Workload.objects.get(name="nb-huang")
    models.Workload.objects.filter(pk=desk.pk).update(
        kind="training",
        idle_limit_s=3600,
        owner_may_keep=True,
        submitted_by="lin",
        running_since=now - timedelta(hours=5),
    )
    models.Replica.objects.exclude(workload=desk).update(idle=None)
    models.Replica.objects.filter(workload=desk).update(
        idle=True, idle_since=now - timedelta(minutes=40), sampled_at=now
    )
    return desk


def page_of(client, user):
    client.force_login(user)
    return " ".join(client.get(reverse("idle")).content.decode().split())


def test_an_idle_holding_is_listed_with_its_rule_and_what_it_costs(client, admin, idle_desk):
    text = page_of(client, admin)
    assert "nb-huang" in text
    assert "40 min" in text
    assert "stops in 20 min of 1 h 0 min" in text
    # Half a GPU for 40 minutes at 74 an hour
    assert "24.67" in text


def test_what_can_not_be_watched_is_listed_and_is_not_idle(client, admin, idle_desk):
    # Given nb-huang was last read ten minutes ago, and all others a moment ago
    now = timezone.now()
    models.Replica.objects.update(sampled_at=now, idle=False)
    assert "Can't be watched" not in html.unescape(page_of(client, admin))
    models.Replica.objects.filter(workload=idle_desk).update(
        sampled_at=now - timedelta(minutes=10), booked_at=now - timedelta(hours=5), running_at=None
    )
    # Then the page says so, and the holding is not idle
    text = html.unescape(page_of(client, admin))
    assert "1 running workload without a reading in the last 2 minutes" in text
    assert "nb-huang" in text
    assert "Nothing that is held is idle now." in text
    # And who does not see its project sees nothing of it
    other = html.unescape(page_of(client, person("kim", Role.RESEARCHER, project="vision-lab")))
    assert "Can't be watched" not in other


def test_its_owner_keeps_it_where_the_rule_allows_and_another_researcher_does_not(
    client, idle_desk
):
    other = person("kim", Role.RESEARCHER, project="nlp-lab")
    assert reverse("idle_keep", args=[idle_desk.pk]) not in page_of(client, other)
    client.post(reverse("idle_keep", args=[idle_desk.pk]))
    assert models.Workload.objects.get(pk=idle_desk.pk).kept_at is None
    lin = person("lin", Role.RESEARCHER, project="nlp-lab")
    assert reverse("idle_keep", args=[idle_desk.pk]) in page_of(client, lin)
    client.post(reverse("idle_keep", args=[idle_desk.pk]))
    assert models.Workload.objects.get(pk=idle_desk.pk).kept_at is not None
    said = client.post(reverse("idle_keep", args=[idle_desk.pk]), follow=True).content.decode()
    assert "less than 30 minutes ago" in said


def test_an_idle_holding_says_since_when_and_that_its_owner_was_warned(client, admin, idle_desk):
    models.Workload.objects.filter(pk=idle_desk.pk).update(idle_warned_percent=50)
    text = page_of(client, admin)
    since = timezone.localtime(timezone.now() - timedelta(minutes=40))
    assert (
        f"since {since:%Y-%m-%d %H:%M}" in text
        or f"since {since - timedelta(minutes=1):%Y-%m-%d %H:%M}" in text
    )
    assert "owner warned" in text
    assert "NT$" in text


def test_rules_are_set_by_admins_of_the_scope_and_refused_for_inference(client, scene):
    department = models.Department.objects.get(name="Research")
    wen = User.objects.create_user("wen", password="someone-of-tests")
    AccessRule.objects.create(user=wen, role=Role.DEPARTMENT_ADMIN, department=department)
    client.force_login(wen)
    rule = {"unit": f"department-{department.pk}", "kind": "training", "idle_limit_s": "3600"}
    client.post(reverse("idle_rule"), rule)
    assert models.IdlePolicy.objects.get().idle_limit_s == 3600
    said = client.post(reverse("idle_rule"), {**rule, "kind": "inference"}, follow=True)
    assert "Let it scale to zero instead" in said.content.decode()
    # A project may only tighten
    project = models.Project.objects.get(name="nlp-lab")
    looser = {**rule, "unit": f"project-{project.pk}", "idle_limit_s": "7200"}
    assert (
        "may only tighten"
        in client.post(reverse("idle_rule"), looser, follow=True).content.decode()
    )
    assert models.AuditEntry.objects.get(action="idle_policy.set").object_name == "Research"


def test_a_researcher_reads_the_rules_and_changes_none(client, researcher):
    text = page_of(client, researcher)
    assert "View only" in text
    project = models.Project.objects.get(name="nlp-lab")
    client.post(
        reverse("idle_rule"),
        {"unit": f"project-{project.pk}", "kind": "training", "idle_limit_s": "60"},
    )
    assert not models.IdlePolicy.objects.exists()


def test_where_nothing_is_idle_it_says_so(client, admin, scene):
    models.Replica.objects.update(idle=None)
    assert "What is not known never counts as idle" in page_of(client, admin)
