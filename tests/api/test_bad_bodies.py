"""B39 at the API: every endpoint that takes a body names each wrong field, however deep it stands."""

from __future__ import annotations

import re

import pytest
from django.test.client import encode_multipart

from access.models import User
from access.roles import Role
from dashboard.api.app import api as document
from scheduler import models
from tests.api.conftest import Api
from tests.api.test_walk import OF_REPLICAS
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db
SCHEMA = document.get_openapi_schema()
#: Of no type that a field has, but for those that take an object.
WRONG = {"neither": ["this", "nor", "that"]}


JSON = "application/json"


def all_bodies():
    """Address, method, type and schema of every body that some endpoint takes."""
    for path, methods in SCHEMA["paths"].items():
        for method, operation in methods.items():
            if (method.upper(), path) in OF_REPLICAS:
                continue  # people are not let in: tests/api/test_progress.py sends its bodies
            address = re.sub(r"{\w+}", "1", path.removeprefix("/api/v1"))
            for sort, content in operation.get("requestBody", {}).get("content", {}).items():
                yield address, method.upper(), sort, resolved(content["schema"])


def bodies():
    """Address, method and the schema of its JSON body, of every endpoint that has one."""
    for address, method, sort, body in all_bodies():
        if sort == JSON:
            yield address, method, body


def resolved(about):
    """What a reference stands for."""
    name = about.get("$ref", "").rsplit("/", 1)[-1]
    return SCHEMA["components"]["schemas"][name] if name else about


def deep(answer):
    """The full places that an answer names."""
    return {each["field"] for each in answer.json().get("problems", []) if each["message"]}


def objects_of(about):
    """For a field that takes an object or a list of them: what to send into it, and where it is wrong."""
    for each in [about, *about.get("anyOf", []), *about.get("allOf", [])]:
        found = resolved(each)
        if found.get("type") == "object" and "properties" in found:
            yield {"no_such_field": 1}, "no_such_field"
        elif found.get("type") == "object":
            yield {"key": {"neither": 1}}, "key"
        elif found.get("type") == "array" and resolved(found["items"]).get("type") == "object":
            yield [{"no_such_field": 1}], "0.no_such_field"


def named(answer):
    """The fields that an answer names, without those inside of them; empty where it says nothing of one."""
    if answer.status_code != 422 or not answer.json()["message"]:
        return set()
    told = answer.json()["problems"]
    return {each["field"].split(".")[0] for each in told if each["message"]}


def takes_objects(about):
    kinds = [about, *about.get("anyOf", []), *about.get("oneOf", []), *about.get("allOf", [])]
    return any(each.get("type") == "object" or "$ref" in each for each in kinds)


def test_b39_each_field_that_is_missing_wrong_or_unknown_is_named_and_nothing_is_changed(api):
    before = models.AuditEntry.objects.count()
    unnamed, walked = {}, 0
    for address, method, body in bodies():
        # When one comes that is not there, and those that are needed do not
        expected = {*body.get("required", []), "no_such_field"}
        missing = expected - named(api(method, address, {"no_such_field": 1}))
        # When all that take no object get one
        wrong = {
            name: WRONG for name, about in body["properties"].items() if not takes_objects(about)
        }
        if wrong:
            missing |= set(wrong) - named(api(method, address, wrong))
        # And when what comes is no object at all
        if api(method, address, ["no", "object"]).status_code != 422:
            missing.add("")
        if missing:
            unnamed[method, address] = missing
        walked += 1
    # Then each of them is named
    assert unnamed == {}
    assert walked > 30
    assert models.AuditEntry.objects.count() == before


def test_b39_what_is_wrong_inside_of_an_object_is_named_with_its_place(api):
    before = models.AuditEntry.objects.count()
    unnamed, walked = {}, 0
    for address, method, body in bodies():
        for name, about in body["properties"].items():
            for sent, place in objects_of(about):
                # When an object has an unknown field, or a value of no type that it takes
                answer = api(method, address, {name: sent})
                walked += 1
                # Then its whole place is named
                if f"{name}.{place}" not in deep(answer):
                    unnamed[method, address, name] = deep(answer)
                # And when what comes is no object at all, then the field is
                if not any(
                    each.split(".")[0] == name for each in deep(api(method, address, {name: 7}))
                ):
                    unnamed[method, address, name, 7] = answer.content
    assert unnamed == {}
    assert walked > 15
    assert models.AuditEntry.objects.count() == before


def test_b39_an_upload_without_its_files_is_told_which_field_they_belong_to(api):
    uploads = [
        (address, method, body)
        for address, method, sort, body in all_bodies()
        if sort == "multipart/form-data"
    ]
    assert uploads
    # Given every endpoint that takes files, each is walked here or above
    assert {sort for _address, _method, sort, _body in all_bodies()} <= {
        JSON,
        "multipart/form-data",
    }
    for address, method, body in uploads:
        for fields in ({}, dict.fromkeys(body["properties"], "no file"), {"no_such_field": "1"}):
            # When one comes without files, with text in their place, or under another name
            answer = api.client.generic(
                method,
                f"/api/v1{address}",
                data=encode_multipart("line", fields),
                content_type="multipart/form-data; boundary=line",
            )
            # Then the field is named, with what it should be
            assert answer.status_code == 422, (address, fields, answer.content)
            assert set(body["required"]) <= named(answer), answer.content


#: What a change may name beyond what it changes: nothing but what its document says.
BEYOND = {
    "id": 1, "project_id": 1, "kind": "inference", "type": "inference", "priority": 150,
    "preemptible": False, "owner": "admin", "superuser": True, "quota_mgpu": 1, "role": "system_admin",
}  # fmt: skip


def test_b39_no_change_takes_a_field_that_it_does_not_change(api):
    # Given every endpoint that changes what is there
    unrefused, walked = {}, 0
    for address, method, body in bodies():
        if method not in {"PATCH", "PUT"}:
            continue
        walked += 1
        # When fields of something else come with it, one at a time, then each is a mistake that is named
        for name, value in BEYOND.items():
            answer = api(method, address, {name: value})
            if name not in body["properties"] and name not in named(answer):
                unrefused[method, address, name] = answer.status_code
    assert unrefused == {}
    assert walked > 10


@pytest.mark.parametrize("door", ["department", "person"])
def test_b39_a_patch_reaches_nothing_beyond_ones_own_scope(scene, door):
    """Given the head of Research, when a change would land in another department or make them more."""
    head = Api(person("wen", Role.DEPARTMENT_ADMIN, department="Research"))
    if door == "department":
        own = models.Project.objects.get(name="nlp-lab")
        for target in (models.Department.objects.get(name="Dev and test").pk, 987_654):
            answer = head("PATCH", f"/projects/{own.pk}", {"department_id": target})
            assert answer.status_code == 404
        own.refresh_from_db()
        assert own.department.name == "Research"
        return
    admin = User.objects.create_superuser("root", password="admin-of-tests")
    colleague = person("lin", Role.RESEARCHER, project="nlp-lab")
    for user, status in ((admin, 404), (colleague, 403)):
        for change in (
            {"active": False},
            {"password": "harbour-lantern-72"},
            {"email": "a@b.example"},
        ):
            answer = head("PATCH", f"/people/{user.pk}", change)
            assert answer.status_code == status, change
        user.refresh_from_db()
        assert user.is_active
        assert user.email == ""
