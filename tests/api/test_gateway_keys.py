"""Gateway keys over the API: made, changed, revoked."""

from __future__ import annotations

import pytest

from access.roles import Role
from scheduler import models

pytestmark = pytest.mark.django_db


def test_a_key_is_changed_and_keeps_its_secret_and_scope(api, api_of, project):
    made = api.post("/gateway-keys", {"name": "team", "project_id": project("nlp-lab").pk}).json()
    before = models.GatewayKey.objects.get(pk=made["id"])
    terms = {"name": "team-2", "allowed_models": ["chat"], "budget_micro": 1_500_000}
    # Who may only look changes nothing
    refused = api_of(Role.VIEWER).put(f"/gateway-keys/{before.pk}", terms)
    assert (refused.status_code, refused.json()["code"]) == (403, "keys_are_for_admins")
    # When it is changed, then its terms are new and nothing else is
    told = api.put(f"/gateway-keys/{before.pk}", terms).json()
    assert {name: told[name] for name in terms} == terms
    after = models.GatewayKey.objects.get(pk=before.pk)
    assert (after.digest, after.project_id) == (before.digest, before.project_id)
    entry = models.AuditEntry.objects.get(action="gateway_key.change")
    assert entry.door == "api"
    # And one that is revoked is not changed
    assert api("DELETE", f"/gateway-keys/{before.pk}").status_code == 204
    gone = api.put(f"/gateway-keys/{before.pk}", terms)
    assert (gone.status_code, gone.json()["problems"][0]["code"]) == (422, "key_revoked")
