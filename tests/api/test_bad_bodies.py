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
                yield re.sub(r"{\w+}", "1", path.removeprefix("/api/v1")), method.upper(), body


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
