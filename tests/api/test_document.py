"""Schemathesis over every endpoint: no 500, and each answer as the document says."""

from __future__ import annotations

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import Client
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from access.models import User
from dashboard.api.app import api

pytestmark = pytest.mark.django_db
schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
schema.app = get_wsgi_application()
#: What fits the document may be refused by a rule; the session is sent beside what is tried as a key.
NOT_APPLIED = [checks.positive_data_acceptance, checks.ignored_auth]
#: What never ends, or is sent while it is made: this server would gather it first.
STREAMED = (
    "/api/v1/decisions/stream",
    "/api/v1/reports/consumption.csv",
    "/api/v1/reports/intervals.csv",
)
walked = schema.exclude(path=list(STREAMED))


@pytest.fixture
def signed_in(scene):
    client = Client()
    client.force_login(User.objects.create_superuser("admin", password="admin-of-tests"))
    client.get("/")
    return {name: each.value for name, each in client.cookies.items()}


@pytest.fixture(autouse=True)
def kept_connection(signed_in):
    """The server closes old connections after each request; here the test's own is used."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@walked.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_answers_keep_to_the_document(case, signed_in):
    with transaction.atomic():
        case.call_and_validate(
            cookies=signed_in,
            headers={"X-CSRFToken": signed_in["tidegate_csrf"]},
            excluded_checks=NOT_APPLIED,
        )
        transaction.set_rollback(True)
