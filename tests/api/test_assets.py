"""Assets over the API: defined once, named by work, changed without losing another's change."""

from __future__ import annotations

import io

import pytest

from access.roles import Role
from scheduler import models

pytestmark = pytest.mark.django_db
ENVIRONMENT = {
    "kind": "environment",
    "name": "torch",
    "environment": {"command": ["python", "train.py"], "env": {"EPOCHS": "3"}},
}


def test_an_environment_is_defined_and_named_by_work(api, project):
    # Given an environment of a project
    made = api.post("/assets", ENVIRONMENT | {"project_id": project("nlp-lab").pk})
    assert made.status_code == 201
    assert made.json()["definition"]["env"] == {"EPOCHS": "3"}
    # When work of that project names it instead of a command
    work = {
        "name": "by-environment",
        "project_id": project("nlp-lab").pk,
        "request_mgpu": 500,
        "environment_id": made.json()["id"],
    }
    tried = api.post("/workloads/preview", work)
    submitted = api.post("/workloads", work)
    # Then it runs what the environment says, and stands among its uses
    assert (tried.status_code, submitted.status_code) == (200, 201)
    assert submitted.json()["command"] == ["python", "train.py"]
    uses = api.get(f"/assets/{made.json()['id']}").json()["uses"]
    assert [each["name"] for each in uses] == ["by-environment"]
    # And work of another project may not name it
    other = work | {"name": "elsewhere", "project_id": project("vision-lab").pk}
    refused = api.post("/workloads/preview", other)
    assert (refused.status_code, refused.json()["code"]) == (422, "no_such_asset")


def test_a_credential_tells_its_names_and_never_a_value(api, project):
    body = {"kind": "credential", "name": "hub", "secrets": {"HUB_TOKEN": "very-secret"}}
    made = api.post("/assets", body | {"project_id": project("nlp-lab").pk})
    assert made.status_code == 201
    assert made.json()["definition"] == {"names": ["HUB_TOKEN"]}
    for answer in (made, api.get("/assets"), api.get(f"/assets/{made.json()['id']}")):
        assert b"very-secret" not in answer.content
    # And a new description leaves the values as they are
    changed = api.put(f"/assets/{made.json()['id']}", {"name": "hub", "description": "of the hub"})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert changed.json()["definition"] == {"names": ["HUB_TOKEN"]}


def test_a_template_is_a_whole_submission(api, project):
    body = {
        "kind": "template",
        "name": "half-a-gpu",
        "project_id": project("nlp-lab").pk,
        "template": {"command": ["python", "x.py"], "request_mgpu": 500},
    }
    made = api.post("/assets", body)
    assert made.status_code == 201
    assert made.json()["definition"]["submission"]["request_mgpu"] == 500
    # And a part that can't be is named
    bad = api.post("/assets", body | {"name": "bad", "template": {"command": [], "grace_s": 301}})
    assert {each["field"] for each in bad.json()["problems"]} == {"command", "grace_s"}


def test_files_are_kept_and_named_by_a_source(api, project):
    place = project("nlp-lab").pk
    sent = api.client.post(
        f"/api/v1/assets/files?project_id={place}",
        {"files": [_file("a.txt", b"one"), _file("b.txt", b"two")]},
    )
    assert (sent.status_code, sent.json()["files"], sent.json()["bytes"]) == (201, 2, 6)
    body = {
        "kind": "source",
        "name": "data",
        "project_id": place,
        "source": {"type": "tree", "digest": sent.json()["digest"]},
    }
    assert api.post("/assets", body).status_code == 201


def test_a_change_of_another_is_not_overwritten(api, project):
    made = api.post("/assets", ENVIRONMENT | {"project_id": project("nlp-lab").pk})
    address = f"/assets/{made.json()['id']}"
    etag = api.get(address)["ETag"]
    body = {"name": "torch", "environment": {"command": ["python", "other.py"]}}
    assert api.put(address, body, If_Match=etag).status_code == 200
    late = api.put(address, body, If_Match=etag)
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    assert api("DELETE", address).status_code == 204
    assert api.get(address).status_code == 404


def test_what_is_of_another_kind_is_told(api, project):
    body = {"kind": "source", "name": "x", "project_id": project("nlp-lab").pk}
    for said in ({}, {"environment": {}}):
        refused = api.post("/assets", body | said)
        assert (refused.status_code, refused.json()["code"]) == (422, "asset_of_other_kind")


def test_who_may_only_look_defines_nothing(api_of, project):
    api = api_of(Role.VIEWER)
    place = project("nlp-lab").pk
    refused = api.post("/assets", ENVIRONMENT | {"project_id": place})
    assert (refused.status_code, refused.json()["code"]) == (403, "assets_view_only")
    sent = api.client.post(
        f"/api/v1/assets/files?project_id={place}", {"files": [_file("a.txt", b"one")]}
    )
    assert sent.status_code == 403
    foreign = api.post("/assets", ENVIRONMENT | {"project_id": project("vision-lab").pk})
    assert foreign.status_code == 404
    assert not models.Asset.objects.exists()


def _file(name, content):
    file = io.BytesIO(content)
    file.name = name
    return file
