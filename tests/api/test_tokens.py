"""Tokens at the API's door: as much as their owner has, and not a moment longer."""

from __future__ import annotations

import pytest
from django.test import Client

from access.models import AccessRule, AccessToken
from access.roles import Role
from scheduler import models
from tests.api.conftest import token_of
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def lin(scene):
    return person("lin", Role.RESEARCHER, project="nlp-lab")


def call(secret, path, method="GET", body=None):
    return Client().generic(
        method,
        f"/api/v1{path}",
        data=body or b"",
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )


def test_a_token_is_its_owner(lin):
    told = call(token_of(lin), "/me").json()
    assert told["name"] == "lin"
    assert [each["role"] for each in told["roles"]] == ["researcher"]


def test_a_token_loses_what_its_owner_loses(lin):
    # Given a token that sees work of nlp-lab
    secret = token_of(lin)
    assert call(secret, "/workloads").json()["total"] > 0
    # When the rule goes, then it sees nothing
    AccessRule.objects.filter(user=lin).delete()
    assert call(secret, "/workloads").json()["total"] == 0
    # And when the account ends, it is not let in
    lin.is_active = False
    lin.save()
    assert call(secret, "/workloads").status_code == 401


def test_a_token_for_reading_changes_nothing(lin):
    secret = token_of(lin, read_only=True)
    own = models.Workload.objects.filter(project__name="nlp-lab", phase="running").first()
    refused = call(secret, f"/workloads/{own.pk}/stop", "POST")
    assert (refused.status_code, refused.json()["code"]) == (403, "token_read_only")
    own.refresh_from_db()
    assert not own.stop_requested


def test_a_revoked_or_made_up_token_is_not_let_in(lin):
    secret = token_of(lin)
    AccessToken.objects.update(revoked_at="2026-01-01T00:00:00Z")
    for each in (secret, "tgat_nonsense", ""):
        answer = call(each, "/me")
        assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")


def test_a_bad_token_is_not_helped_by_a_session(lin):
    client = Client()
    client.force_login(lin)
    assert client.get("/api/v1/me").status_code == 200
    answer = client.get("/api/v1/me", headers={"Authorization": "Bearer tgat_nonsense"})
    assert answer.status_code == 401
