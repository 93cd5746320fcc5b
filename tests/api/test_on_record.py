"""What is changed over the API is on record, and so is what a role or a token does not allow."""

from __future__ import annotations

import pytest

from access.models import User
from access.roles import Role
from scheduler import models
from tests.api.conftest import token_of

pytestmark = pytest.mark.django_db

ABOUT = "period=yesterday&by=project&zone=UTC"


def entries():
    """Take what is on record since the last time: (action or code, who, result)."""
    found = [
        (row.reason if row.result == "refused" else row.action, row.actor, row.result, row.door)
        for row in models.AuditEntry.objects.order_by("id")
        if row.pk > entries.last_id
    ]
    entries.last_id = max(models.AuditEntry.objects.values_list("id", flat=True), default=0)
    return found


@pytest.fixture(autouse=True)
def from_here(scene):
    entries.last_id = max(models.AuditEntry.objects.values_list("id", flat=True), default=0)


def done(action, who="admin"):
    return [(action, who, "done", "api")]


def refused(code, who="lin"):
    return [(code, who, "refused", "api")]


def test_reports_kept_shared_and_dropped(api, api_of):
    kept = api.post(f"/reports/saved?{ABOUT}", {"name": "one"}).json()["id"]
    assert entries() == done("report.save")
    api("PATCH", f"/reports/saved/{kept}", {"readers": "unit"})
    assert entries() == done("report.share")
    assert api("DELETE", f"/reports/saved/{kept}").status_code == 204
    assert entries() == done("report.drop")

    lin = api_of(Role.RESEARCHER)
    everyone = {"name": "x", "readers": "all"}
    assert lin.post(f"/reports/saved?{ABOUT}", everyone).status_code == 403
    assert entries() == refused("sharing_with_all_is_for_admins")
    own = lin.post(f"/reports/saved?{ABOUT}", {"name": "mine"}).json()["id"]
    assert entries() == done("report.save", "lin")
    assert lin("PATCH", f"/reports/saved/{own}", {"readers": "all"}).status_code == 403
    assert entries() == refused("sharing_with_all_is_for_admins")


def test_schedules_made_and_stopped(api, api_of, project):
    weekly = {"name": "weekly", "every": "week"}
    made = api.post(f"/reports/schedules?{ABOUT}", weekly).json()["id"]
    assert entries() == done("report_schedule.create")
    assert api("DELETE", f"/reports/schedules/{made}").status_code == 204
    assert entries() == done("report_schedule.drop")

    lin = api_of(Role.RESEARCHER)
    answer = lin.post(f"/reports/schedules?{ABOUT}", {**weekly, "readers": "all"})
    assert answer.status_code == 403
    assert entries() == refused("sharing_with_all_is_for_admins")


def test_a_token_that_asks_beyond_its_scope(api, project):
    admin = User.objects.get(username="admin")
    secret = token_of(admin, scope=("project", project("nlp-lab").pk))
    entries()
    api.client.logout()
    answer = api.post(
        f"/reports/schedules?{ABOUT}",
        {"name": "all", "every": "day"},
        Authorization=f"Bearer {secret}",
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "schedule_beyond_token")
    assert entries() == refused("schedule_beyond_token", "admin")


def test_months_closed(api, api_of):
    assert api.post("/reports/statements", {"month": "2026-01"}).status_code == 201
    assert entries() == done("month.close")
    lin = api_of(Role.PROJECT_ADMIN)
    assert lin.post("/reports/statements", {"month": "2026-02"}).status_code == 403
    assert entries() == refused("months_are_for_admins")


def test_gateway_keys_changed(api, api_of, project):
    made = api.post("/gateway-keys", {"name": "team", "project_id": project("nlp-lab").pk}).json()
    entries()
    assert api.put(f"/gateway-keys/{made['id']}", {"name": "team-2"}).status_code == 200
    assert entries() == done("gateway_key.change")
    told = models.AuditEntry.objects.get(action="gateway_key.change")
    assert (told.before["name"], told.after["name"]) == ("team", "team-2")
    viewer = api_of(Role.VIEWER)
    assert viewer.put(f"/gateway-keys/{made['id']}", {"name": "mine"}).status_code == 403
    assert entries() == refused("keys_are_for_admins")
    # What one does not see is answered as absent and leaves no line
    elsewhere = api.post(
        "/gateway-keys", {"name": "other", "project_id": project("vision-lab").pk}
    ).json()
    entries()
    assert viewer.put(f"/gateway-keys/{elsewhere['id']}", {"name": "mine"}).status_code == 404
    assert entries() == []


def test_drafts_replayed(api, api_of, project):
    row = {"level": "project", "id": project("nlp-lab").pk, "quota_mgpu": 1_000}
    assert api.post("/quotas/replays", {"rows": [row]}).status_code == 201
    assert entries() == done("quota.replay")
    told = models.AuditEntry.objects.get(action="quota.replay").after
    assert told == {"days": 7, "rows": ["nlp-lab"]}
    lin = api_of(Role.PROJECT_ADMIN)
    assert lin.post("/quotas/replays", {"rows": [row]}).status_code == 403
    assert entries() == refused("project_quota_is_for_admins")
