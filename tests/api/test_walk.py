"""Every endpoint of the document with each scoped role: what is outside is as if it were not there."""

from __future__ import annotations

import re

import pytest

from access.models import AccessRule, User
from access.roles import Role
from dashboard.api.app import api as document
from scheduler import models
from scheduler.operations import gateway_keys
from scheduler.operations.authority import SYSTEM
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db

MISSING = 987_654
HOME, HOME_PROJECT = "Research", "nlp-lab"
FOREIGN, FOREIGN_PROJECT = "Dev and test", "vision-lab"
SCOPED = [role for role in Role if role is not Role.SYSTEM_ADMIN]
#: Where a path's id is not that of a workload: by the parameter's name.
KINDS = ("workload_id", "decision_id", "key_id", "request_id", "project_id", "department_id")
#: Nodes are everybody's: their devices are anonymous beyond one's scopes.
OPEN = {"node_id"}
#: Never ends; its rows are those of the list.
ENDLESS = {"/api/v1/decisions/stream"}


@pytest.fixture
def foreign(scene):
    project = models.Project.objects.get(name=FOREIGN_PROJECT)
    workload = models.Workload.objects.filter(project=project, phase="running").first()
    decision = models.Decision.objects.create(
        pool=workload.pool,
        project=project,
        workload=workload,
        at=workload.submitted_at,
        cycle=1,
        verb="place",
    )
    asked = models.ServeRequest.objects.create(
        project=project,
        pool=workload.pool,
        name="foreign-service",
        requested_by="foreigner",
        requested_at=workload.submitted_at,
    )
    key = gateway_keys.create_key(
        project_id=project.pk,
        terms=gateway_keys.KeyTerms(name="foreign-key"),
        authority=SYSTEM,
        now=workload.submitted_at,
    ).key
    return {
        "workload_id": workload.pk,
        "decision_id": decision.pk,
        "request_id": asked.pk,
        "key_id": key.pk,
        "project_id": project.pk,
        "department_id": project.department_id,
    }


def someone(role):
    user = User.objects.create_user("self", password="someone-of-tests")
    scope = {"department": models.Department.objects.get(name=HOME)}
    if role is not Role.DEPARTMENT_ADMIN:
        scope = {"project": models.Project.objects.get(name=HOME_PROJECT)}
    AccessRule.objects.create(user=user, role=role, **scope)
    return Api(user)


def operations():
    for path, methods in document.get_openapi_schema()["paths"].items():
        for method in methods:
            yield path, method.upper(), methods[method]


BODIES = {
    "PriorityIn": {"priority": 60},
    "ChangeScalingIn": {"min_replicas": 0, "max_replicas": 1},
    "AnswerIn": {"answer": "no"},
    "DepartmentIn": {"name": "Renamed"},
    "ProjectChangeIn": {"name": "renamed"},
}


def body_of(operation):
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    return BODIES.get(schema.get("$ref", "").rsplit("/", 1)[-1])


@pytest.mark.parametrize("role", SCOPED)
def test_a_foreign_thing_answers_as_a_missing_one(foreign, role):
    call = someone(role)
    walked = 0
    for path, method, operation in operations():
        names = re.findall(r"{(\w+)}", path)
        if not names or set(names) <= OPEN:
            continue
        assert set(names) <= set(KINDS), f"{path}: say what its id is of"
        answers = []
        for number in (foreign[names[0]], MISSING):
            address = path.replace(f"{{{names[0]}}}", str(number)).removeprefix("/api/v1")
            answer = call(method, address, body_of(operation))
            answers.append((answer.status_code, answer.content))
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] == 404, (method, path)
        walked += 1
    assert walked > 15


@pytest.mark.parametrize("role", SCOPED)
def test_lists_tell_nothing_of_what_is_outside(foreign, role):
    outside = {
        *models.Project.objects.exclude(department__name=HOME).values_list("name", flat=True),
        *models.Department.objects.exclude(name=HOME).values_list("name", flat=True),
        *(
            name
            for name in models.Workload.objects.exclude(project__department__name=HOME).values_list(
                "name", flat=True
            )
            if len(name) > 4
        ),
        "foreign-service",
        "foreign-key",
        "foreigner",
    }
    call = someone(role)
    told = {}
    for path, method, _operation in operations():
        if method != "GET" or "{" in path or path in ENDLESS:
            continue
        answer = call.get(path.removeprefix("/api/v1"))
        assert answer.status_code in (200, 404), path
        text = b"".join(answer) if answer.streaming and not answer.is_async else b""
        text = text.decode() or ("" if answer.streaming else answer.content.decode())
        found = {word for word in outside if f'"{word}"' in text or f"{word} " in text}
        if found:
            told[path] = found
    assert told == {}


def test_everything_needs_to_be_signed_in(client, foreign):
    for path, method, _operation in operations():
        address = re.sub(r"{\w+}", "1", path)
        assert client.generic(method, address).status_code == 401, (method, path)
