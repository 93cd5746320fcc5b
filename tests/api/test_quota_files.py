"""The quota tree as a file over the API: looked at, then carried out whole, or not at all."""

from __future__ import annotations

import pytest

from access.roles import Role
from scheduler import models
from tests.api.conftest import Api
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


def exported(api, ending="csv"):
    return api.get(f"/quotas/file?format={ending}").content.decode("utf-8-sig")


def quota_of(name):
    return models.ProjectQuota.objects.get(project__name=name).quota_mgpu


@pytest.mark.parametrize("ending", ["csv", "yaml"])
def test_what_is_exported_changes_nothing(api, ending):
    told = api.post("/quotas/file/preview", {"format": ending, "text": exported(api, ending)})
    assert told.status_code == 200
    assert (told.json()["changed"], told.json()["mistakes"], told.json()["unchanged"]) == (
        [],
        [],
        10,
    )


def test_a_file_that_was_looked_at_is_carried_out(api):
    # Given a file with another guarantee, tried out
    text = exported(api).replace("bio-fold,6.00", "bio-fold,5.25")
    told = api.post("/quotas/file/preview", {"text": text}).json()
    assert [(each["name"], each["cells"]) for each in told["changed"]] == [
        ("bio-fold", [{"field": "guarantee", "before": "6.00", "after": "5.25"}])
    ]
    assert quota_of("bio-fold") == 6_000
    # When it is sent as it was seen, then it is in force
    saved = api.put("/quotas/file", {"text": text, "seen": told["seen"], "reason": "file"})
    assert saved.status_code == 200
    assert quota_of("bio-fold") == 5_250
    entry = models.AuditEntry.objects.filter(action="quota.set").latest("id")
    assert (entry.door, entry.reason) == ("api", "file")


def test_what_changed_since_it_was_looked_at_is_not_overwritten(api, project):
    text = exported(api).replace("bio-fold,6.00", "bio-fold,5.25")
    told = api.post("/quotas/file/preview", {"text": text}).json()
    # Given someone else changes that row meanwhile
    row = {"level": "project", "id": project("bio-fold").pk, "quota_mgpu": 5_500}
    assert api.put("/quotas", {"rows": [row]}, If_Match="*").status_code == 200
    late = api.put("/quotas/file", {"text": text, "seen": told["seen"]})
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    assert quota_of("bio-fold") == 5_500


def test_a_mistake_is_named_by_its_line_and_nothing_is_done(api):
    text = (
        exported(api).replace("bio-fold,6.00", "bio-fold,much").replace("nlp-lab,10", "nlp-lab,9")
    )
    told = api.post("/quotas/file/preview", {"text": text}).json()
    assert [(each["field"], each["code"]) for each in told["mistakes"]] == [
        ("guarantee", "bad_gpus")
    ]
    refused = api.put("/quotas/file", {"text": text, "seen": told["seen"]})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["params"]["line"] == told["mistakes"][0]["line"]
    assert quota_of("nlp-lab") == 10_000


def test_who_may_only_look_changes_nothing(api_of):
    api = api_of(Role.RESEARCHER)
    text = exported(api)
    assert "vision-lab" not in text
    told = api.post(
        "/quotas/file/preview", {"text": text.replace("nlp-lab,10", "nlp-lab,9")}
    ).json()
    assert [each["code"] for each in told["mistakes"]] == ["row_view_only"]
    # And what is outside is as if it were not there
    foreign = "pool,department,project,guarantee\r\nmain,Dev and test,vision-lab,1\r\n"
    missing = foreign.replace("Dev and test,vision-lab", "Nowhere at all,nothing")
    codes = [
        [
            each["code"]
            for each in api.post("/quotas/file/preview", {"text": text}).json()["mistakes"]
        ]
        for text in (foreign, missing)
    ]
    assert codes == [["unknown_department"]] * 2


NEW = "pool,department,project,guarantee,limit\r\nmain,Moved,,4,8\r\nmain,Moved,moved-one,2,4\r\n"


def test_what_a_file_names_is_made_with_it_or_not_at_all(api):
    # Given a file of a department that is not there: as it stands that is a mistake
    assert api.post("/quotas/file/preview", {"text": NEW}).json()["mistakes"]
    # When it is to be made, the preview says so, and keeps nothing
    told = api.post("/quotas/file/preview", {"text": NEW, "make_units": True}).json()
    assert [each["name"] for each in told["made"]] == ["Moved", "moved-one"]
    assert told["mistakes"] == []
    assert not models.Department.objects.filter(name="Moved").exists()
    # And with a mistake nothing is made
    bad = NEW.replace(",2,4", ",5,4")
    seen = api.post("/quotas/file/preview", {"text": bad, "make_units": True}).json()
    assert [each["code"] for each in seen["mistakes"]] == ["limit_below_quota"]
    body = {"text": bad, "make_units": True, "seen": seen["seen"]}
    assert api.put("/quotas/file", body).status_code == 422
    assert not models.Department.objects.filter(name="Moved").exists()
    # And as it was seen it is carried out, with its quotas
    saved = api.put("/quotas/file", {"text": NEW, "make_units": True, "seen": told["seen"]})
    assert saved.status_code == 200
    assert quota_of("moved-one") == 2_000


def test_a_department_is_made_by_system_admins_only(scene):
    lin = Api(person("lin", Role.RESEARCHER, project="nlp-lab"))
    refused = lin.post("/quotas/file/preview", {"text": NEW, "make_units": True})
    assert (refused.status_code, refused.json()["code"]) == (403, "departments_are_for_admins")
