"""Quotas over the API: a draft is tried out, saved whole or not at all, and never over another's."""

from __future__ import annotations

import pytest

from access.roles import Role
from scheduler import models

pytestmark = pytest.mark.django_db


def rows(api):
    return {(row["level"], row["name"]): row for row in api.get("/quotas").json()["rows"]}


def test_a_change_needs_the_etag_and_is_saved_whole(api, project):
    etag = api.get("/quotas")["ETag"]
    row = {"level": "project", "id": project("bio-fold").pk, "quota_mgpu": 5_000}
    # Without If-Match it is not taken
    bare = api.put("/quotas", {"rows": [row], "reason": "less"})
    assert (bare.status_code, bare.json()["code"]) == (428, "needs_if_match")
    # With it, it is
    saved = api.put("/quotas", {"rows": [row], "reason": "less"}, If_Match=etag)
    assert saved.status_code == 200
    assert rows(api)["project", "bio-fold"]["quota_mgpu"] == 5_000
    # And the old one is good for nothing more
    late = api.put("/quotas", {"rows": [row | {"quota_mgpu": 1}]}, If_Match=etag)
    assert late.status_code == 412
    # And a draft with one bad row changes none
    bad = [row | {"quota_mgpu": 4_000}, row | {"id": project("nlp-lab").pk, "limit_mgpu": 1}]
    refused = api.put("/quotas", {"rows": bad}, If_Match="*")
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["code"] == "limit_below_quota"
    assert rows(api)["project", "bio-fold"]["quota_mgpu"] == 5_000
    # And so does one with two lines for a row, which may say different things
    twice = api.put("/quotas", {"rows": [row, row | {"quota_mgpu": 4_000}]}, If_Match="*")
    (problem,) = twice.json()["problems"]
    assert (twice.status_code, problem["field"], problem["code"]) == (
        422,
        "rows.1.id",
        "unit_twice",
    )
    assert "bio-fold is in the draft twice" in problem["message"]
    assert rows(api)["project", "bio-fold"]["quota_mgpu"] == 5_000


def test_a_preview_writes_nothing(api, project):
    before = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    row = {"level": "project", "id": project("vision-lab").pk, "quota_mgpu": 12_000}
    answer = api.post("/quotas/preview", {"rows": [row]})
    assert answer.status_code == 200
    assert set(answer.json()) >= {"interrupts", "starts", "never", "warnings"}
    after = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    assert before == after


def test_who_may_only_look_changes_nothing(api_of, project):
    api = api_of(Role.RESEARCHER)
    row = {"level": "project", "id": project("nlp-lab").pk, "quota_mgpu": 12_000}
    assert api.put("/quotas", {"rows": [row]}, If_Match="*").status_code == 403
    foreign = {"level": "project", "id": project("vision-lab").pk, "quota_mgpu": 1}
    missing = {"level": "project", "id": 987_654, "quota_mgpu": 1}
    answers = [api.put("/quotas", {"rows": [each]}, If_Match="*") for each in (foreign, missing)]
    assert [each.status_code for each in answers] == [404, 404]
    assert answers[0].content == answers[1].content


def test_who_may_not_change_a_row_may_not_try_it_out(api_of, project):
    api = api_of(Role.RESEARCHER)
    own = {"level": "project", "id": project("nlp-lab").pk, "quota_mgpu": 12_000}
    foreign = {"level": "project", "id": project("vision-lab").pk, "quota_mgpu": 1}
    answers = [api.post("/quotas/preview", {"rows": [row]}) for row in (own, foreign)]
    assert [each.status_code for each in answers] == [403, 404]
    assert answers[0].json()["code"] == "project_quota_is_for_admins"


def test_a_preview_refuses_what_the_cluster_forbids(api, project):
    row = {"level": "project", "id": project("nlp-lab").pk, "quota_mgpu": 11_000}
    assert api.post("/quotas/preview", {"rows": [row]}).status_code == 200
    models.Cluster.objects.update(forbid_oversubscription=True)
    refused = api.post("/quotas/preview", {"rows": [row]})
    assert refused.status_code == 422
    codes = {each["code"] for each in refused.json()["problems"]}
    saved = api.put("/quotas", {"rows": [row]}, If_Match="*")
    assert codes == {each["code"] for each in saved.json()["problems"]}


def test_what_draining_would_do_is_told_to_who_may_drain(api, api_of):
    node = models.Node.objects.first()
    assert api.get(f"/nodes/{node.pk}/drain-preview").status_code == 200
    refused = api_of(Role.RESEARCHER).get(f"/nodes/{node.pk}/drain-preview")
    assert (refused.status_code, refused.json()["code"]) == (403, "nodes_are_for_admins")


def test_a_draft_is_replayed_one_at_a_time_and_read_by_who_asked(api, api_of, project):
    row = {"level": "project", "id": project("nlp-lab").pk, "quota_mgpu": 1_000}
    made = api.post("/quotas/replays", {"rows": [row], "days": 7})
    assert made.status_code == 201, made.content
    replay = made.json()
    assert (replay["status"], replay["days"], replay["names"]) == ("queued", 7, ["nlp-lab"])
    # Another one waits for it, and a draft that changes nothing is none
    busy = api.post("/quotas/replays", {"rows": [row], "days": 30})
    assert (busy.status_code, busy.json()["problems"][0]["code"]) == (409, "replay_at_work")
    nothing = api.post("/quotas/replays", {"rows": [{"level": "project", "id": row["id"]}]})
    assert nothing.json()["problems"][0]["code"] == "nothing_to_replay"
    # It is found by who asked; of others only who sees the whole cluster does
    assert api.get(f"/quotas/replays/{replay['id']}").json() == replay
    assert [each["id"] for each in api.get("/quotas/replays").json()["items"]] == [replay["id"]]
    other = api_of("project_admin")
    assert other.get(f"/quotas/replays/{replay['id']}").status_code == 404
    assert other.get("/quotas/replays").json()["total"] == 0
    refused = other.post("/quotas/replays", {"rows": [row]})
    assert (refused.status_code, refused.json()["code"]) == (403, "project_quota_is_for_admins")


def test_a_gpu_tells_its_processes_as_far_as_one_sees_them(api, api_of):
    booked = models.ReplicaDevice.objects.filter(
        replica__workload__project__name="vision-lab"
    ).first()
    node, index = booked.device.node, booked.device.index
    found = api.get(f"/nodes/{node.pk}/devices/{index}").json()
    assert (found["node_name"], found["index"]) == (node.name, index)
    assert booked.replica.workload.name in [each["workload_name"] for each in found["processes"]]
    seen = api_of("viewer").get(f"/nodes/{node.pk}/devices/{index}").json()
    assert "vision-lab" not in [each["project_name"] for each in seen["processes"]]
    assert api.get(f"/nodes/{node.pk}/devices/9999").status_code == 404
