"""Rules on idle time, tokens of one's own, and service accounts over the API."""

from __future__ import annotations

import pytest
from django.utils import timezone

from access.models import AccessToken
from access.roles import Role
from scheduler import models
from tests.api.conftest import Api, token_of
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db
IDLE = {"idle_limit_s": 1800, "owner_may_keep": False}


def audited():
    return list(models.AuditEntry.objects.order_by("id").values_list("action", "door", "result"))


# --- Idle time ------------------------------------------------------------------------------------


def test_an_idle_rule_is_set_tightened_and_taken_away(api, project):
    own = project("nlp-lab")
    outer = f"/departments/{own.department_id}/idle-rules/training"
    inner = f"/projects/{own.pk}/idle-rules/training"
    # Given a rule of the department
    assert api.put(outer, IDLE).status_code == 200
    # When a project would loosen it, then the refusal names the field and the bound
    refused = api.put(inner, {"idle_limit_s": 3600})
    assert (refused.status_code, refused.json()["code"]) == (422, "looser_than_department")
    assert refused.json()["problems"][0]["field"] == "idle_limit_s"
    # When it tightens it, then both stand in the list
    told = api.put(inner, {"idle_limit_s": 600}).json()
    rule = next(each for each in told["rules"] if each["kind"] == "training")
    assert (rule["idle_limit_s"], rule["outer_idle_s"]) == (600, 1800)
    # And without a limit it is taken away
    assert api.put(inner, {}).status_code == 200
    listed = {(u["is_department"], u["id"]): u for u in api.get("/idle-rules").json()}
    assert listed[False, own.pk]["rules"][0]["idle_limit_s"] is None
    assert audited() == [("idle_policy.set", "api", "done")] * 3


def test_inference_has_no_idle_rule_and_the_refusal_says_why(api, project):
    refused = api.put(f"/projects/{project('nlp-lab').pk}/idle-rules/inference", IDLE)
    assert refused.status_code == 422
    assert "scale to zero" in refused.json()["message"]


def test_who_may_set_no_rules_reads_those_of_their_scope(api_of, project):
    api = api_of(Role.RESEARCHER)
    assert (
        api.put(f"/projects/{project('nlp-lab').pk}/idle-rules/training", IDLE).status_code == 403
    )
    assert [unit["name"] for unit in api.get("/idle-rules").json()] == ["nlp-lab"]


def test_idle_holdings_are_those_of_the_page(api):
    workload = models.Workload.objects.filter(phase="running").first()
    since = timezone.now() - timezone.timedelta(minutes=9)
    models.Replica.objects.filter(workload=workload).update(
        idle=True, idle_since=since, sampled_at=timezone.now()
    )
    models.Workload.objects.filter(pk=workload.pk).update(running_since=since)
    told = {each["workload_id"]: each for each in api.get("/idle").json()["items"]}
    assert told[workload.pk]["idle_s"] >= 500


# --- Tokens and service accounts ------------------------------------------------------------------


def test_a_token_is_answered_once_works_and_is_revoked(api, client):
    made = api.post("/me/tokens", {"name": "sweep", "days": 7, "read_only": True})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    secret = made.json()["secret"]
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/me", headers=bearer).json()["name"] == "admin"
    # And no list has the secret again
    [listed] = api.get("/me/tokens").json()
    assert listed["name"] == "sweep"
    assert secret not in str(listed)
    assert api("DELETE", f"/me/tokens/{listed['id']}").status_code == 204
    assert client.get("/api/v1/me", headers=bearer).status_code == 401
    assert audited() == [("token.create", "api", "done"), ("token.revoke", "api", "done")]


def test_a_token_makes_and_ends_no_token(scene, client):
    lin = person("lin", Role.PROJECT_ADMIN, project="nlp-lab")
    bearer = {"Authorization": f"Bearer {token_of(lin)}"}
    for path, body in (
        ("/me/tokens", {"name": "more"}),
        ("/service-accounts", {"name": "more", "project_id": 1}),
    ):
        answer = client.post(
            f"/api/v1{path}", body, content_type="application/json", headers=bearer
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "not_by_token"), path
    assert AccessToken.objects.count() == 1


def test_a_scope_that_is_not_ones_own_is_none(api_of, project):
    api = api_of(Role.PROJECT_ADMIN)
    for scope in (project("vision-lab").pk, 987_654):
        for path in ("/me/tokens", "/service-accounts"):
            answer = api.post(path, {"name": "more", "project_id": scope})
            assert answer.status_code == 404, path


def test_an_account_is_made_given_a_role_and_a_token_and_ended(scene, client, project):
    own = project("nlp-lab")
    api = Api(person("wen", Role.PROJECT_ADMIN, project="nlp-lab"))
    made = api.post("/service-accounts", {"name": "nightly", "project_id": own.pk}).json()
    assert made["username"] == "nightly.nlp-lab"
    rule = {"username": made["username"], "role": "researcher", "project_id": own.pk}
    assert api.post("/access-rules", rule).status_code == 201
    token = api.post(f"/service-accounts/{made['id']}/tokens", {"name": "cron"}).json()
    bearer = {"Authorization": f"Bearer {token['secret']}"}
    roles = client.get("/api/v1/me", headers=bearer).json()["roles"]
    assert [each["role"] for each in roles] == ["researcher"]
    # When a token of it is revoked, then only that one; when it ends, then for good
    address = f"/service-accounts/{made['id']}"
    assert api("DELETE", f"{address}/tokens/{token['id'] + 1}").status_code == 404
    assert api("DELETE", f"{address}/tokens/{token['id']}").status_code == 204
    assert client.get("/api/v1/me", headers=bearer).status_code == 401
    assert api("DELETE", address).status_code == 204
    assert api.get(address).json()["active"] is False
    refused = api.post(f"{address}/tokens", {"name": "cron"})
    assert (refused.status_code, refused.json()["code"]) == (422, "account_ended")


def test_for_who_gives_no_roles_there_are_no_accounts(api_of):
    api = api_of(Role.RESEARCHER)
    assert api.get("/service-accounts").status_code == 404
    assert api.post("/service-accounts", {"name": "more"}).status_code == 404
