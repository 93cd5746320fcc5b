"""Schedules of quotas, people and roles, alerts and channels over the API."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import time_machine

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from scheduler.operations.secret_box import unseal

pytestmark = pytest.mark.django_db
MONDAY = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def quota_of(name):
    return models.ProjectQuota.objects.get(project__name=name).quota_mgpu


# --- Schedules of quotas --------------------------------------------------------------------------


def nights(project, **changes):
    return {
        "name": "nights",
        "reason": "batch",
        "weekly": {"days": [0, 1, 2, 3, 4], "from_minute": 22 * 60, "to_minute": 6 * 60},
        "rows": [{"level": "project", "id": project.pk, "quota_mgpu": 4_000}],
    } | changes


def test_a_schedule_is_made_changed_and_cancelled(api, project):
    with time_machine.travel(MONDAY, tick=False):
        # When nights are scheduled at noon, then nothing changes yet
        made = api.post("/quota-schedules", nights(project("bio-fold")))
        assert made.status_code == 201
        told = made.json()
        assert (told["open"], told["next_at"], told["partial"]) == (
            False,
            "2026-11-30T22:00:00Z",
            False,
        )
        [row] = told["rows"]
        assert (row["outside"]["quota_mgpu"], row["inside"]["quota_mgpu"]) == (6_000, 4_000)
        assert quota_of("bio-fold") == 6_000
        # And a window that holds now opens at once
        address = f"/quota-schedules/{told['id']}"
        days = {"days": [0], "from_minute": 11 * 60, "to_minute": 13 * 60}
        changed = api.put(address, nights(project("bio-fold"), weekly=days))
        assert (changed.status_code, changed.json()["open"]) == (200, True)
        assert quota_of("bio-fold") == 4_000
        # And cancelled it goes back
        assert api("DELETE", f"/quota-schedules/{changed.json()['id']}").status_code == 204
        assert quota_of("bio-fold") == 6_000
        listed = api.get("/quota-schedules?which=past").json()["items"]
        assert "cancelled" in [each["status"] for each in listed]


def test_a_time_that_is_past_is_told(api, project):
    body = nights(project("bio-fold"), weekly=None, at="2020-01-01T00:00:00Z")
    refused = api.post("/quota-schedules", body)
    assert (refused.status_code, refused.json()["code"]) == (422, "not_later")


def test_who_may_not_change_a_row_schedules_nothing(api_of, project):
    api = api_of(Role.RESEARCHER)
    own, foreign = nights(project("nlp-lab")), nights(project("vision-lab"))
    answers = [api.post("/quota-schedules", each).status_code for each in (own, foreign)]
    assert answers == [403, 404]


# --- People and roles -----------------------------------------------------------------------------


def test_someone_is_made_given_a_role_by_a_group_and_ended(api, project):
    # Given a user and a group
    person = api.post(
        "/people", {"username": "wen", "password": "long-enough-9", "email": "wen@example.org"}
    )
    group = api.post("/groups", {"name": "readers"})
    assert (person.status_code, group.status_code) == (201, 201)
    # When the group has a role and the user is in it
    place = {"project_id": project("nlp-lab").pk}
    given = api.post("/access-rules", {"group": "readers", "role": "viewer", **place})
    joined = api.post(f"/groups/{group.json()['id']}/members", {"username": "wen"})
    assert (given.status_code, joined.status_code) == (201, 200)
    # Then the user has that role by it
    [rule] = api.get(f"/people/{person.json()['id']}").json()["rules"]
    assert (rule["role"], rule["scope_name"], rule["by_group"]) == ("viewer", "nlp-lab", "readers")
    # And what was given is taken
    address = f"/groups/{group.json()['id']}/members/{person.json()['id']}"
    assert api("DELETE", address).status_code == 204
    assert api("DELETE", f"/access-rules/{given.json()['id']}").status_code == 204
    ended = api("PATCH", f"/people/{person.json()['id']}", {"active": False})
    assert (ended.json()["active"], ended.json()["email"]) == (False, "wen@example.org")
    actions = set(models.AuditEntry.objects.filter(door="api").values_list("action", flat=True))
    assert {"user.create", "group.create", "access.grant", "group.join", "access.revoke"} <= actions


def test_a_project_admin_gives_only_what_is_below(api_of, project):
    User.objects.create_user("wen", password="someone-of-tests")
    api = api_of(Role.PROJECT_ADMIN)
    place = {"username": "wen", "project_id": project("nlp-lab").pk}
    assert api.post("/access-rules", {**place, "role": "viewer"}).status_code == 201
    above = api.post("/access-rules", {**place, "role": "project_admin"})
    assert (above.status_code, above.json()["code"]) == (403, "role_above_own")
    elsewhere = {**place, "project_id": project("vision-lab").pk, "role": "viewer"}
    assert api.post("/access-rules", elsewhere).status_code == 404
    # And sees those of its project, and makes nobody
    assert [each["username"] for each in api.get("/people").json()["items"]] == ["lin", "wen"]
    made = api.post("/people", {"username": "x", "password": "long-enough-9"})
    assert (made.status_code, made.json()["code"]) == (403, "people_are_for_admins")


def test_who_gives_no_roles_finds_no_people(api_of):
    api = api_of(Role.RESEARCHER)
    own = AccessRule.objects.get(user__username="lin")
    answers = [api.get("/people"), api.get("/groups"), api("DELETE", f"/access-rules/{own.pk}")]
    assert [each.status_code for each in answers] == [404] * 3


# --- Alerts ---------------------------------------------------------------------------------------


def test_a_rule_is_made_silenced_and_its_alert_acknowledged(api, project):
    body = {
        "name": "long waits",
        "metric": "longest_wait_s",
        "threshold": 3600,
        "for_s": 60,
        "project_id": project("nlp-lab").pk,
    }
    made = api.post("/alert-rules", body)
    assert made.status_code == 201
    address = f"/alert-rules/{made.json()['id']}"
    # Given an alert of it
    rule = models.AlertRule.objects.get(pk=made.json()["id"])
    alert = rule.alerts.create(raised_at=MONDAY, threshold=3600, value=4000, peak=4000)
    # When someone looks after it, then that is written down, once
    answers = [api.post(f"/alerts/{alert.pk}/acknowledge", {"comment": "mine"}) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 409]
    assert answers[0].json()["acknowledged_by"] == "admin"
    # And a silence has an end that is near
    with time_machine.travel(MONDAY, tick=False):
        silenced = api.put(f"{address}/silence", {"until": "2026-12-01T12:00:00Z"})
        assert silenced.json()["silenced_by"] == "admin"
        far = api.put(f"{address}/silence", {"until": "2027-12-01T12:00:00Z"})
        assert (far.status_code, far.json()["code"]) == (422, "bad_silence")
    assert api.put(address, body | {"threshold": 7200}).json()["threshold"] == 7200
    assert api("DELETE", address).status_code == 204


def test_who_sets_no_rules_has_no_alerts(api_of):
    api = api_of(Role.RESEARCHER)
    assert [api.get(each).status_code for each in ("/alerts", "/alert-rules")] == [404, 404]


# --- Channels -------------------------------------------------------------------------------------


def test_a_webhook_has_a_secret_that_is_shown_once(api, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    made = api.put("/me/channels", {"type": "webhook", "url": "http://127.0.0.1:9/hook?key=k"})
    assert made.status_code == 200
    row = models.NoticeChannel.objects.get()
    assert unseal(sealed=bytes(row.sealed))["secret"] == made.json()["secret"]
    listed = api.get("/me/channels")
    assert [each["shown"] for each in listed.json()] == ["127.0.0.1"]
    assert made.json()["secret"].encode() not in listed.content
    # And a message can be tried, and one that is dead again
    assert api.post(f"/me/channels/{row.pk}/test").status_code == 202
    [message] = api.get("/me/deliveries").json()
    assert api.post(f"/me/deliveries/{message['id']}/again").status_code == 404
    row.deliveries.update(status="dead")
    assert api.post(f"/me/deliveries/{message['id']}/again").status_code == 202
    assert api("DELETE", f"/me/channels/{row.pk}").status_code == 204


def test_an_address_that_may_not_be_used_is_told(api):
    refused = api.put("/me/channels", {"type": "webhook", "url": "http://127.0.0.1/hook"})
    assert refused.json()["code"] == "forbidden_network"
    assert api.put("/me/channels", {"type": "slack", "url": "nonsense"}).json()["code"] == "bad_url"


def test_what_goes_where_is_read_and_set(api):
    told = api.get("/me/notice-choices").json()
    assert told["choices"]["started"] == []
    changed = told | {"choices": {"started": ["page"]}, "digest_s": 300}
    saved = api.put("/me/notice-choices", changed)
    assert (saved.status_code, saved.json()["choices"]["started"]) == (200, ["page"])
    bad = api.put("/me/notice-choices", {"choices": {"started": ["pigeon"]}, "digest_s": 300})
    assert (bad.status_code, bad.json()["code"]) == (409, "bad_choice")
