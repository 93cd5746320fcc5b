"""Workloads over the API: submit once, try out, act, page, explain."""

from __future__ import annotations

import pytest

from access.roles import Role
from scheduler import models

pytestmark = pytest.mark.django_db


def asked(project, **changes):
    return {
        "name": "from-the-api",
        "project_id": project.pk,
        "kind": "training",
        "command": ["python", "train.py"],
        "request_mgpu": 500,
    } | changes


def test_a_submission_is_there_and_named_in_location(api, project):
    # When a training is submitted
    answer = api.post("/workloads", asked(project("nlp-lab")))
    # Then it waits, and Location is its address
    assert answer.status_code == 201
    assert answer.json()["phase"] == "pending"
    assert api.get(answer["Location"].removeprefix("/api/v1")).json()["name"] == "from-the-api"
    entry = models.AuditEntry.objects.latest("id")
    assert (entry.action, entry.door) == ("workload.submit", "api")


def test_sent_twice_with_one_key_it_is_there_once(api, project):
    body = asked(project("nlp-lab"))
    first = api.post("/workloads", body, Idempotency_Key="k-1")
    second = api.post("/workloads", body, Idempotency_Key="k-1")
    # Then both answers are about one workload
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    assert models.Workload.objects.filter(name="from-the-api").count() == 1
    # And the key for something else is refused
    other = api.post("/workloads", body | {"name": "other"}, Idempotency_Key="k-1")
    assert other.status_code == 422
    assert other.json()["code"] == "key_used"


def test_a_refused_submission_leaves_its_key_free(api, project):
    body = asked(project("nlp-lab"))
    assert (
        api.post("/workloads", body | {"name": "Bad Name"}, Idempotency_Key="k").status_code == 422
    )
    assert api.post("/workloads", body, Idempotency_Key="k").status_code == 201


def test_each_mistake_names_its_field(api, project):
    body = asked(project("nlp-lab"), name="Not Good", grace_s=301, env={"TIDEGATE_X": "1"})
    answer = api.post("/workloads", body)
    assert answer.status_code == 422
    assert {(each["field"], each["code"]) for each in answer.json()["problems"]} == {
        ("name", "bad_name"),
        ("grace_s", "bad_grace"),
        ("env", "bad_env_name"),
    }


def test_a_misspelt_field_is_a_mistake(api, project):
    answer = api.post("/workloads", asked(project("nlp-lab"), request_gpu=1))
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "request_gpu"


def test_what_is_no_json_is_told(api):
    answer = api.client.post("/api/v1/workloads", b"{", content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_request"


def test_a_researcher_may_train_and_is_told_the_way_to_serve(api_of, project):
    api = api_of(Role.RESEARCHER)
    assert api.post("/workloads", asked(project("nlp-lab"))).status_code == 201
    refused = api.post("/workloads", asked(project("nlp-lab"), name="svc", kind="inference"))
    assert refused.status_code == 403
    assert refused.json()["code"] == "serve_by_request"
    assert "request to serve" in refused.json()["message"]
    # And the way is there
    asking = api.post(
        "/serve-requests", asked(project("nlp-lab"), name="svc", comment="for the demo")
    )
    assert asking.status_code == 201
    assert asking.json()["status"] == "open"


def test_trying_out_writes_nothing_and_says_what_would_be(api, project):
    before = models.Workload.objects.count()
    # Given research holds less than its guarantee, when half a GPU is tried out there
    answer = api.post("/workloads/preview", asked(project("bio-fold")))
    # Then it would run, and nothing is written
    assert answer.status_code == 200
    assert answer.json()["outcome"] in ("starts", "takes")
    assert answer.json()["replicas"] == 1
    assert answer.json()["borrowed_mgpu"] == 0
    assert bool(answer.json()["interrupts"]) == (answer.json()["outcome"] == "takes")
    assert models.Workload.objects.count() == before
    # And what no node could ever hold never runs
    never = api.post("/workloads/preview", asked(project("bio-fold"), request_mgpu=1000, devices=9))
    assert never.json()["outcome"] == "never"
    assert never.json()["reason"]["why"]


def test_a_waiting_workload_tells_what_would_make_it_run(api, project):
    made = api.post("/workloads", asked(project("bio-fold"), request_mgpu=1000, devices=9)).json()
    answer = api.get(f"/workloads/{made['id']}/explanation")
    assert answer.status_code == 200
    ways = {each["way"]: each["value"] for each in answer.json()["would_run"]}
    # No node has nine GPUs; with fewer it would run
    assert ways["devices"] < 9


def test_pages_go_through_the_whole_list_in_any_order(api):
    total = api.get("/workloads").json()["total"]
    for sort in ("-id", "id", "name", "-priority", "submitted_at"):
        names, after = [], ""
        while after is not None:
            page = api.get(f"/workloads?limit=7&sort={sort}&after={after}").json()
            names += [each["id"] for each in page["items"]]
            after = page["next"]
        assert len(names) == len(set(names)) == total, sort
    ordered = [each["name"] for each in api.get("/workloads?sort=name&limit=500").json()["items"]]
    assert ordered == sorted(ordered)


def test_a_priority_changed_meanwhile_is_not_overwritten(api):
    workload = models.Workload.objects.filter(kind="training", phase="running").first()
    etag = api.get(f"/workloads/{workload.pk}")["ETag"]
    assert api.put(f"/workloads/{workload.pk}/priority", {"priority": 60}).status_code == 200
    late = api.put(f"/workloads/{workload.pk}/priority", {"priority": 70}, If_Match=etag)
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    workload.refresh_from_db()
    assert workload.priority == 60


def test_stop_start_and_delete(api):
    workload = models.Workload.objects.filter(kind="training", phase="running").first()
    assert api.post(f"/workloads/{workload.pk}/stop").json()["stop_requested"] is True
    again = api.post(f"/workloads/{workload.pk}/start")
    assert (again.status_code, again.json()["code"]) == (409, "has_not_ended")
    assert api("DELETE", f"/workloads/{workload.pk}").status_code == 204


def test_nobody_gets_in_without_a_session_or_a_token(client, scene):
    for method in ("GET", "POST"):
        answer = client.generic(method, "/api/v1/workloads")
        assert answer.status_code == 401
        assert answer.json()["code"] == "not_signed_in"


def test_a_session_without_its_csrf_token_changes_nothing(api, project):
    api.client.handler.enforce_csrf_checks = True
    answer = api.post("/workloads", asked(project("nlp-lab")))
    assert answer.status_code == 403
    assert not models.Workload.objects.filter(name="from-the-api").exists()


def test_a_minimum_above_the_maximum_is_told(api):
    service = models.Workload.objects.filter(kind="inference", phase="running").first()
    refused = api.put(f"/services/{service.pk}/scaling", {"min_replicas": 3, "max_replicas": 2})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_bounds")


def test_what_all_replicas_ask_for_has_its_own_name(api, project):
    body = asked(project("bio-fold"), kind="distributed", min_replicas=4, max_replicas=4)
    made = api.post("/workloads", body).json()
    assert (made["asked_mgpu"], "request_mgpu" in made) == (2_000, False)


def test_a_name_of_no_pool_is_told_and_never_another_pool(api, project):
    body = asked(project("nlp-lab"), pool="nowhere")
    answers = [
        api.get("/workloads?pool=nowhere"),
        api.post("/workloads", body),
        api.post("/workloads/preview", body),
        api.post("/serve-requests", body | {"kind": "inference"}),
        api.get("/cluster/overview?pool=nowhere"),
        api.get("/nodes?pool=nowhere"),
        api.get("/quotas?pool=nowhere"),
    ]
    assert [each.status_code for each in answers] == [404] * 7
    assert not models.Workload.objects.filter(name="from-the-api").exists()


def test_who_may_not_submit_may_not_try_out(api_of, project):
    # Given someone who may only look
    api = api_of(Role.VIEWER)
    train = api.post("/workloads/preview", asked(project("nlp-lab")))
    foreign = api.post("/workloads/preview", asked(project("vision-lab")))
    assert (train.status_code, train.json()["code"]) == (403, "work_is_view_only")
    assert foreign.status_code == 404


def test_a_researcher_may_not_try_out_a_service(api_of, project):
    api = api_of(Role.RESEARCHER)
    train = api.post("/workloads/preview", asked(project("nlp-lab")))
    serve = api.post("/workloads/preview", asked(project("nlp-lab"), kind="inference"))
    assert train.status_code == 200
    assert (serve.status_code, serve.json()["code"]) == (403, "serve_by_request")


def test_how_much_others_lose_is_told_to_who_sees_all_only(api, api_of):
    # Given work that waits, and would run if other work gave way
    waiting = models.Workload.objects.get(name="seg-xl").pk
    scoped = api_of(Role.RESEARCHER, "vision-lab")
    # When both ask what would make it run
    whole = api.get(f"/workloads/{waiting}/explanation").json()["would_run"]
    partial = scoped.get(f"/workloads/{waiting}/explanation").json()["would_run"]
    # Then the same ways are there, and the number only for the whole cluster's reader
    assert [each["way"] for each in whole] == [each["way"] for each in partial]
    assert any(each["interrupts_others"] for each in whole)
    assert all(each["interrupts"] is not None for each in whole)
    assert all(each["interrupts"] is None for each in partial)
    told = [each["interrupts_others"] for each in partial]
    assert told == [each["interrupts"] > 0 for each in whole]


def test_an_unknown_field_of_a_priority_is_a_mistake(api):
    workload = models.Workload.objects.filter(kind="training", phase="running").first()
    refused = api.put(f"/workloads/{workload.pk}/priority", {"priority": 60, "preemtible": True})
    assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, "preemtible")


def test_several_are_submitted_whole_or_not_at_all(api, project):
    good, bad = asked(project("nlp-lab")), asked(project("nlp-lab"), name="second", grace_s=301)
    refused = api.post("/workloads/batch", {"workloads": [good, bad]})
    assert refused.status_code == 422
    [problem] = refused.json()["problems"]
    assert (problem["field"], problem["unit"]) == ("grace_s", "second")
    assert not models.Workload.objects.filter(name="from-the-api").exists()
    made = api.post("/workloads/batch", {"workloads": [good, bad | {"grace_s": 30}]})
    assert [each["name"] for each in made.json()] == ["from-the-api", "second"]
