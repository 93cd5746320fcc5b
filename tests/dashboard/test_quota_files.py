"""The quota tree as a file on its page, in the admin and on the command line."""

from __future__ import annotations

import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from scheduler import models
from tests.dashboard.test_quota_editor import (  # noqa: F401
    head_of_research,
    pages,
    row_of,
    text,
)

pytestmark = pytest.mark.django_db


def exported(client, ending="csv"):
    answer = client.get(reverse("quota_export", args=[ending]))
    assert answer.status_code == 200
    assert f".{ending}" in answer["Content-Disposition"]
    return answer.content.decode("utf-8-sig")


def upload(client, content, name="quotas.csv", **more):
    file = SimpleUploadedFile(name, content.encode())
    return client.post(reverse("quota_file"), {"file": file, "ending": "csv", **more})


@pytest.mark.parametrize("ending", ["csv", "yaml"])
def test_an_export_comes_back_through_a_trial_with_its_difference_and_a_second_look(
    pages,  # noqa: F811
    ending,
):
    whole = exported(pages, ending)
    assert "The file says what is so already." in text(upload(pages, whole, f"q.{ending}"))
    # Given the guarantee of nlp-lab is another one in the file
    old = "nlp-lab,10.00" if ending == "csv" else "project: nlp-lab\n      guarantee: '10.00'"
    if ending == "yaml" and old not in whole:
        old = next(
            f"project: nlp-lab\n{line}"
            for line in whole.split("project: nlp-lab\n")[1].splitlines()[:1]
        )
    changed = whole.replace(old, old.replace("10.00", "9.00"))
    assert changed != whole
    # When it is uploaded, then the difference stands there and nothing is changed
    trial = upload(pages, changed, f"q.{ending}")
    said = text(trial)
    assert '<span class="was">10.00</span>' in said
    assert "<b>9.00</b>" in said
    assert row_of("nlp-lab").quota.quota_mgpu == 10_000
    # When it is confirmed, then it is saved with its reason
    seen = trial.context["plan"].digest
    form = {"seen": seen, "ending": ending, "text": changed, "reason": "yearly plan"}
    assert pages.post(reverse("quota_file"), form).status_code == 302
    assert row_of("nlp-lab").quota.quota_mgpu == 9_000
    assert models.AuditEntry.objects.get(action="quota.set").reason == "yearly plan"
    # And confirmed once more from the old page it does nothing: the difference is another one now
    again = text(pages.post(reverse("quota_file"), form))
    assert "have changed since you looked" in again


def test_mistakes_are_said_with_line_field_and_what_was_perhaps_meant(pages):  # noqa: F811
    whole = exported(pages)
    said = text(upload(pages, whole.replace("nlp-lab,10.00", "nlp-lba,10.00")))
    assert (
        "project: There is no project called nlp-lba in that department. Did you mean nlp-lab?"
        in said
    )
    said = text(upload(pages, whole.replace("nlp-lab,10.00", "nlp-lab,ten")))
    assert "guarantee: “ten” is not an amount of GPUs" in said
    assert "Put these right first" in said
    binary = SimpleUploadedFile("q.csv", b"\xff\xfe\x00")
    said = text(pages.post(reverse("quota_file"), {"file": binary, "ending": "csv"}))
    assert "not UTF-8" in said


def test_a_department_admin_exports_and_imports_its_own_rows_alone(pages, head_of_research):  # noqa: F811
    whole = exported(pages)
    pages.force_login(head_of_research)
    own = exported(pages)
    assert "nlp-lab" in own
    assert "vision-lab" not in own
    # A file with the rows of others: their names are unknown ones
    assert "There is no department called Production" in text(upload(pages, whole))
    # Its department's own row it may only look at
    said = text(upload(pages, own.replace("Research,,16.00", "Research,,15.00")))
    assert "You may only look at the quota of Research" in said
    trial = upload(pages, own.replace("nlp-lab,10.00", "nlp-lab,9.00"))
    form = {"seen": trial.context["plan"].digest, "ending": "csv", "text": trial.context["text"]}
    assert pages.post(reverse("quota_file"), form).status_code == 302
    assert row_of("nlp-lab").quota.quota_mgpu == 9_000


def test_a_reader_exports_what_it_sees_and_is_offered_no_import(scene, client, researcher):
    client.force_login(researcher)
    assert "vision-lab" not in exported(client)
    page = text(client.get(reverse("quota_file")))
    assert "View only" in page
    assert "import-file" not in page
    said = text(upload(client, exported(client).replace("nlp-lab,10.00", "nlp-lab,99.00")))
    assert "You may only look at the quota of nlp-lab" in said


def test_the_admin_site_leads_to_the_file(pages):  # noqa: F811
    listed = pages.get("/admin/scheduler/projectquota/").content.decode()
    for path, leads_to in (
        ("export-csv", reverse("quota_export", args=["csv"])),
        ("export-yaml", reverse("quota_export", args=["yaml"])),
        ("import", reverse("quota_file")),
    ):
        address = f"/admin/scheduler/projectquota/{path}/"
        assert address.rstrip("/") in listed
        assert pages.get(address).url == leads_to


def test_the_command_line_says_what_would_change_and_then_changes_it(scene, tmp_path):
    out = io.StringIO()
    call_command("quotas", "export", "--format", "yaml", stdout=out)
    call_command("quotas", "export", stdout=(rows := io.StringIO()))
    file = tmp_path / "quotas.csv"
    file.write_text(rows.getvalue().replace("nlp-lab,10.00", "nlp-lab,9.50"))
    call_command("quotas", "import", str(file), "--dry-run", stdout=(said := io.StringIO()))
    assert "main / nlp-lab: guarantee 10.00 -> 9.50" in said.getvalue()
    assert row_of("nlp-lab").quota.quota_mgpu == 10_000
    call_command("quotas", "import", str(file), stdout=(said := io.StringIO()))
    assert "1 row is saved." in said.getvalue()
    assert row_of("nlp-lab").quota.quota_mgpu == 9_500
    # Given a mistake, then nothing is changed, the exit is a failure, and the sentence is the page's
    file.write_text("pool,department,project,guarantee\nmain,Research,nlp-lab,x\n")
    with pytest.raises(CommandError, match="Line 2, guarantee: “x” is not an amount of GPUs"):
        call_command("quotas", "import", str(file))
    # And what only surprises is a sentence too
    file.write_text("pool,department,project,guarantee\nmain,Research,nlp-lab,16\n")
    call_command("quotas", "import", str(file), "--dry-run", stdout=(said := io.StringIO()))
    assert "The projects' guarantees add up to" in said.getvalue()
