"""B39 at the API: every endpoint that takes a body names each wrong field and what it should be."""

from __future__ import annotations

import re

import pytest

from dashboard.api.app import api as document
from scheduler import models

pytestmark = pytest.mark.django_db
SCHEMA = document.get_openapi_schema()
#: Of no type that a field has, but for those that take an object.
WRONG = {"neither": ["this", "nor", "that"]}


def bodies():
    """Address, method and the schema of its JSON body, of every endpoint that has one."""
    for path, methods in SCHEMA["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            if name:
                body = SCHEMA["components"]["schemas"][name.rsplit("/", 1)[-1]]
                address = re.sub(r"{\w+}", "1", path.removeprefix("/api/v1"))
                yield pytest.param(address, method.upper(), body, id=f"{method} {path}")


def named(answer):
    """The fields that an answer names, each with what it says."""
    assert answer.status_code == 422, answer.content
    said = {each["field"]: each["message"] for each in answer.json()["problems"]}
    assert all(said.values())
    assert answer.json()["message"]
    return said


def takes_objects(about):
    kinds = [about, *about.get("anyOf", []), *about.get("oneOf", []), *about.get("allOf", [])]
    return any(each.get("type") == "object" or "$ref" in each or each == {} for each in kinds)


def test_there_are_endpoints_with_bodies():
    assert len(list(bodies())) > 30


@pytest.mark.parametrize(("address", "method", "body"), bodies())
def test_b39_each_wrong_field_is_named_and_nothing_is_changed(api, address, method, body):
    before = models.AuditEntry.objects.count()
    fields = body["properties"]
    # When a field comes that is not there, then it is named, and so is each one that is missing
    said = named(api(method, address, {"no_such_field": 1}))
    assert set(body.get("required", [])) | {"no_such_field"} <= set(said)
    # When every field is of a wrong kind, then every one is named
    wrong = {name: WRONG for name, about in fields.items() if not takes_objects(about)}
    if wrong:
        said = named(api(method, address, wrong))
        assert set(wrong) <= {field.split(".")[0] for field in said}
    # And what is no object at all is told too
    assert api(method, address, ["no", "object"]).status_code == 422
    assert models.AuditEntry.objects.count() == before
