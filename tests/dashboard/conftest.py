"""The scene in the tables, and readers of different scope."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.dashboard.scene import lay_scene

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def scene(db):
    """The cluster of ``scene.py`` as it is now."""
    return lay_scene(now=timezone.now())


@pytest.fixture
def everything():
    return WHOLE_CLUSTER


@pytest.fixture
def nlp_lab(scene):
    """A reader of one project."""
    project = models.Project.objects.get(name="nlp-lab")
    return Visibility(project_ids=frozenset({project.pk}))


@pytest.fixture
def admin(db):
    return User.objects.create_superuser("admin", password="admin-of-tests")


@pytest.fixture
def researcher(scene):
    """A person with the role of a researcher in nlp-lab."""
    return person("lin", Role.RESEARCHER, project="nlp-lab")


def page_headers(user, *, origin="http://localhost", host="localhost"):
    """Return the headers by which a signed-in page opens a socket."""
    browser = Client()
    browser.force_login(user)
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    cookie = f"{settings.SESSION_COOKIE_NAME}={key}"
    named = {"origin": origin, "host": host, "cookie": cookie}
    return [(name.encode(), value.encode()) for name, value in named.items() if value]


def person(name, role, *, project="", department=""):
    """Someone with one role over a project or, where one is named, a department."""
    user = User.objects.create_user(name, password="someone-of-tests")
    scope = (
        {"department": models.Department.objects.get(name=department)}
        if department
        else {"project": models.Project.objects.get(name=project)}
    )
    AccessRule.objects.create(user=user, role=role, **scope)
    return user
