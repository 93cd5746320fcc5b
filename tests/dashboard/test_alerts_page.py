"""The pages of alerts and of what goes where, for readers of different scope."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import AccessRule, User
from access.roles import Role
from notices import tasks
from scheduler import models
from scheduler.operations import notices as operations

pytestmark = pytest.mark.django_db


@pytest.fixture
def head(scene, client):
    """An admin of the project nlp-lab, signed in."""
    user = User.objects.create_user("hui", email="hui@example.org", password="someone-of-tests")
    project = models.Project.objects.get(name="nlp-lab")
    AccessRule.objects.create(user=user, role=Role.PROJECT_ADMIN, project=project)
    client.force_login(user)
    return project


def form(scope, **more):
    return {
        "scope": scope, "name": "Waits too long", "metric": "longest_wait_s", "threshold": "900",
        "for_s": "60", "enabled": "on", **more,
    }  # fmt: skip


def test_a_project_admin_sets_rules_of_its_project_and_no_other(head, client):
    client.post(reverse("alert_rule_save"), form(f"project-{head.pk}"))
    made = models.AlertRule.objects.get(name="Waits too long")
    assert (made.project, made.threshold, made.created_by) == (head, 900, "hui")
    page = client.get(reverse("alerts")).content.decode()
    assert "Waits too long" in page
    # The rules of the cluster are not in its scope, and it may not make one
    assert "Guarantee not met" not in page
    assert client.post(reverse("alert_rule_save"), form("cluster")).status_code == 403
    other = models.Project.objects.get(name="dev-train")
    assert client.post(reverse("alert_rule_save"), form(f"project-{other.pk}")).status_code == 404


def test_a_threshold_is_written_in_the_unit_that_people_use(head, client):
    scope = f"project-{head.pk}"
    client.post(
        reverse("alert_rule_save"), form(scope, metric="idle_share_permille", threshold="12.5")
    )
    assert models.AlertRule.objects.get(name="Waits too long").threshold == 125
    said = client.post(
        reverse("alert_rule_save"), form(scope, threshold="soon"), follow=True
    ).content.decode()
    assert "The threshold is out of the range" in said


def test_who_governs_nothing_has_no_such_page(scene, client, researcher):
    client.force_login(researcher)
    assert client.get(reverse("alerts")).status_code == 404


def test_an_alert_is_acknowledged_and_stands_in_the_history_when_it_is_over(head, client):
    rule = models.AlertRule.objects.create(
        name="Waits", metric="longest_wait_s", threshold=60, for_s=0, project=head,
        created_at=timezone.now(),
    )  # fmt: skip
    alert = models.Alert.objects.create(
        rule=rule, raised_at=timezone.now(), threshold=60, value=300, peak=360
    )
    client.post(reverse("alert_acknowledge", args=[alert.pk]), {"comment": "more quota asked"})
    page = client.get(reverse("alerts")).content.decode()
    assert "hui looks after it" in page
    assert "more quota asked" in page
    assert "6 min" in page
    models.Alert.objects.update(cleared_at=timezone.now())
    assert "No alert is raised." in client.get(reverse("alerts")).content.decode()


def test_a_change_of_a_quota_is_told_to_those_who_see_the_unit_and_not_to_who_made_it(
    head, client, admin
):
    operations.announce(
        code="quota_changed",
        params={
            "name": head.name, "pool": "main", "by": "admin",
            "changes": {"quota_mgpu": [10_000, 8000]},
        },
        audience="see",
        project=head,
        skip="admin",
        now=timezone.now(),
    )  # fmt: skip
    tasks.deliver()
    assert list(models.Notification.objects.values_list("username", flat=True)) == ["hui"]
    page = client.get(reverse("notices")).content.decode()
    assert "changed the quota of" in page
    assert "guarantee 10.00 to <b>8.00</b>" in page


def test_channels_are_set_tried_and_taken_away(head, client, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    page = client.post(
        reverse("notice_channel"), {"type": "webhook", "url": "http://127.0.0.1:9/TOKEN"}
    ).content.decode()
    # The secret is shown this once, and neither it nor the address later
    secret = page.split('<code class="mono">')[1].split("<")[0]
    assert len(secret) > 30
    later = client.get(reverse("notice_settings")).content.decode()
    assert secret not in later
    assert "TOKEN" not in later
    assert "127.0.0.1" in later
    row = models.NoticeChannel.objects.get(username="hui")
    client.post(reverse("notice_channel_try", args=[row.pk]))
    assert models.NoticeDelivery.objects.get().notices == []
    client.post(reverse("notice_channel_remove", args=[row.pk]))
    assert not models.NoticeDelivery.objects.exists()


def test_an_address_inside_is_refused_at_its_field_and_nothing_is_lost(head, client):
    answer = client.post(
        reverse("notice_channel"), {"type": "slack", "url": "http://169.254.169.254/x"}
    )
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "TIDEGATE_WEBHOOK_NETWORKS" in page
    assert 'value="http://169.254.169.254/x"' in page
    assert not models.NoticeChannel.objects.exists()


def test_what_goes_where_is_kept(head, client):
    client.post(
        reverse("notice_settings"),
        {"kind-taken": ["page", "email"], "kind-alerts": [], "digest_s": "300"},
    )
    row = models.NoticeSettings.objects.get(username="hui")
    assert row.digest_s == 300
    assert row.channels_for("reclaimed") == ("page", "email")
    assert row.channels_for("alert_raised") == ()
    said = client.post(reverse("notice_settings"), {"digest_s": "7"}, follow=True)
    assert "There is no such kind, channel or time." in said.content.decode()
