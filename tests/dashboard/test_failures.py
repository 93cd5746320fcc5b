"""A request that fails on the server: a page, or the API's one shape; a database that is away is told."""

from __future__ import annotations

import pytest
from django.db import InterfaceError, OperationalError, connection

pytestmark = pytest.mark.django_db


@pytest.fixture
def failing(client, admin):
    """Ask a door while reading the pools fails."""

    def ask(path, error):
        def read(execute, sql, *more):
            if "scheduler_nodepool" in sql:
                raise error
            return execute(sql, *more)

        client.force_login(admin)
        client.raise_request_exception = False
        with connection.execute_wrapper(read):
            return client.get(path)

    return ask


@pytest.mark.parametrize(
    "error", [OperationalError("connection refused"), InterfaceError("closed")]
)
def test_the_api_says_that_the_database_is_away(failing, error):
    answer = failing("/api/v1/cluster/pools", error)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    told = answer.json()
    assert (told["code"], told["problems"]) == ("database_away", [])
    assert "Idempotency-Key" in told["message"]
    assert str(error) not in answer.content.decode()


def test_the_api_keeps_its_shape_where_something_else_fails(failing):
    answer = failing("/api/v1/cluster/pools", RuntimeError("a secret"))
    assert (answer.status_code, answer.json()["code"]) == (500, "failed")
    assert "secret" not in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "status"), [(OperationalError("x"), 503), (RuntimeError("x"), 500)]
)
def test_pages_say_it_in_both_languages(failing, error, status):
    answer = failing("/map", error)
    assert answer.status_code == status
    page = answer.content.decode()
    assert "What runs on the cluster goes on." in page
    assert "叢集上的工作不受影響" in page
