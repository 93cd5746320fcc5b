"""Schemathesis over every endpoint: no 500, and each answer as the document says."""

from __future__ import annotations

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from access.models import User
from dashboard.api.app import api
from tests.api.conftest import token_of

pytestmark = pytest.mark.django_db
schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
schema.app = get_wsgi_application()
#: What fits the document may be refused by a rule.
NOT_APPLIED = [checks.positive_data_acceptance]
#: What never ends, or is sent while it is made: this server would gather it first.
STREAMED = (
    "/api/v1/decisions/stream",
    "/api/v1/reports/consumption.csv",
    "/api/v1/reports/intervals.csv",
    "/api/v1/reports/statements/{number}.csv",
)
walked = schema.exclude(path=list(STREAMED))


@pytest.fixture
def token(scene, settings):
    settings.API_PER_MINUTE = 10**6
    return token_of(User.objects.create_superuser("admin", password="admin-of-tests"))


@pytest.fixture(autouse=True)
def kept_connection(token):
    """The server closes old connections after each request; here the test's own is used."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@walked.parametrize()
@settings(
    max_examples=4,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_answers_keep_to_the_document(case, token):
    with transaction.atomic():
        case.call_and_validate(
            headers={"Authorization": f"Bearer {token}"}, excluded_checks=NOT_APPLIED
        )
        transaction.set_rollback(True)
