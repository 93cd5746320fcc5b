"""A running replica reports its progress with a token of its own, and those who may see it read it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client

from access import counting
from access.roles import Role
from dashboard.api import progress
from scheduler import models
from scheduler.engines.base import ReplicaKey
from scheduler.operations import replica_tokens
from tests.api.conftest import Api
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica(scene):
    found = models.Replica.objects.filter(
        phase="running", workload__project__name="nlp-lab"
    ).first()
    counting.forget(keys=[f"progress:{found.pk}"])
    return found


def token_of(replica):
    return replica_tokens.token_of(ReplicaKey(replica_id=replica.pk, attempt=replica.attempt))


def post(workload_id, token, body):
    return Client().post(
        f"/api/v1/workloads/{workload_id}/progress",
        data=json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )


def test_what_a_replica_reports_is_read_by_those_who_see_it(replica, api_of):
    # Given a running replica with the token of its attempt
    token = token_of(replica)
    # When it reports twice
    first = {"step": 10, "total": 100, "epoch": 1, "metrics": {"loss": 0.5, "val/acc": 1}}
    assert post(replica.workload_id, token, first).status_code == 204
    assert post(replica.workload_id, token, {"step": 20}).status_code == 204
    # Then both are there, what was left out stays, and a viewer of the project reads it
    found = api_of(Role.VIEWER).get(f"/workloads/{replica.workload_id}/progress").json()
    assert (found["step"], found["total"], found["epoch"]) == (20, 100, 1)
    assert [point["value"] for point in found["steps"]] == [10, 20]
    assert {each["name"]: each["points"][0]["value"] for each in found["metrics"]} == {
        "loss": 0.5,
        "val/acc": 1.0,
    }
    assert [run["attempt"] for run in found["runs"]] == [replica.attempt]
    # And whoever does not see the workload is told that there is none
    someone = Api(person("mei", Role.VIEWER, project="vision-lab"))
    assert someone.get(f"/workloads/{replica.workload_id}/progress").status_code == 404


def test_a_token_is_of_one_workload_and_ends_with_its_attempt(replica, api):
    other = models.Workload.objects.exclude(pk=replica.workload_id).first()
    token = token_of(replica)
    # When it is used for another workload, it finds nothing there
    assert post(other.pk, token, {"step": 1}).status_code == 404
    # When it is altered, of another attempt, or a person's session comes instead, it is none
    another = replica_tokens.token_of(ReplicaKey(replica_id=replica.pk, attempt=99))
    for wrong in (token[:-1] + ("0" if token[-1] != "0" else "1"), another, "tgr_x_y", "x"):
        answer = post(replica.workload_id, wrong, {"step": 1})
        assert (answer.status_code, answer.json()["code"]) == (401, "not_a_replica")
    assert api.post(f"/workloads/{replica.workload_id}/progress", {"step": 1}).status_code == 401
    # When the attempt ends, the token ends
    replica.phase, replica.ended_at = "ended", replica.booked_at + timedelta(seconds=1)
    replica.save()
    assert post(replica.workload_id, token, {"step": 1}).status_code == 401
    assert not models.WorkloadProgress.objects.exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"step": -1}, "invalid"),
        ({"step": True}, "invalid"),
        ({"step": 1.5}, "invalid"),
        ({"steps": 1}, "invalid"),
        ({"metrics": {"loss": "0.3"}}, "invalid"),
        ({"metrics": {"a loss": 0.3}}, "metric_name"),
        ({"metrics": {"x" * 65: 0.3}}, "metric_name"),
        ({"metrics": {"loss": float("nan")}}, "not_finite"),
        ({"metrics": {"loss": 10**400}}, "not_finite"),
        ({"metrics": {f"m{n}": n for n in range(21)}}, "too_many_metrics"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(replica, body, code):
    answer = post(replica.workload_id, token_of(replica), body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["problems"]
    assert not models.WorkloadProgress.objects.exists()


def test_reports_are_bounded_by_rate_and_by_names(replica, monkeypatch):
    token = token_of(replica)
    # Given a workload with the most names that there may be
    most = {f"m{n}": n for n in range(20)}
    assert post(replica.workload_id, token, {"metrics": most}).status_code == 204
    # Then a further name is refused, and those that are there go on
    assert post(replica.workload_id, token, {"metrics": {"new": 1}}).status_code == 422
    assert post(replica.workload_id, token, {"metrics": {"m3": 1}}).status_code == 204
    # When it reports more often than it may, it is told to wait
    monkeypatch.setattr(progress, "MOST_A_MINUTE", 3)
    answer = post(replica.workload_id, token, {"step": 1})
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many")
