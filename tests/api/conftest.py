"""The scene of the pages, and callers of the API."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.utils import timezone

from access import tokens
from access.models import User
from access.scopes import authority_of
from scheduler import models
from tests.dashboard.conftest import person, scene  # noqa: F401


class Api:
    """Calls the API as one user; bodies are JSON."""

    def __init__(self, user):
        self.client = Client()
        self.client.force_login(user)

    def __call__(self, method, path, body=None, **headers):
        return self.client.generic(
            method,
            f"/api/v1{path}",
            data=b"" if body is None else json.dumps(body),
            content_type="application/json",
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )

    def get(self, path, **headers):
        return self("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self("POST", path, body, **headers)

    def put(self, path, body, **headers):
        return self("PUT", path, body, **headers)


def token_of(user, **terms):
    """The secret of a new token of ``user``."""
    made = tokens.create_own(
        terms=tokens.TokenTerms(name="tests", days=1, **terms),
        authority=authority_of(user=user, door="page"),
        now=timezone.now(),
    )
    return made.secret


@pytest.fixture
def api(scene):  # noqa: F811
    """A system admin's API."""
    return Api(User.objects.create_superuser("admin", password="admin-of-tests"))


@pytest.fixture
def api_of(scene):  # noqa: F811
    """The API as someone with a role in a project."""
    return lambda role, project="nlp-lab": Api(person("lin", role, project=project))


@pytest.fixture
def project():
    return lambda name: models.Project.objects.get(name=name)
