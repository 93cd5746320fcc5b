"""Pages as a browser without scripts gets them: complete, scoped, in both languages."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db
PAGES = ("overview", "workloads", "decisions", "quotas", "nodes", "search", "workload_new")
FORM = {
    "name": "mine",
    "kind": "training",
    "gpu": "0.09",
    "min_replicas": "1",
    "max_replicas": "1",
    "command": "python3 train.py --name 'a b'",
    "grace_s": "30",
}


@pytest.fixture
def pages(client, admin):
    client.force_login(admin)
    return client


def project(name):
    return models.Project.objects.get(name=name)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("language", ["en", "zh-hant"])
def test_each_page_is_complete_in_both_languages(scene, pages, name, language):
    pages.cookies["tidegate_language"] = language
    answer = pages.get(reverse(name))
    text = answer.content.decode()
    assert answer.status_code == 200
    assert f'lang="{"zh-Hant" if language == "zh-hant" else "en"}"' in text
    assert ("總覽" in text) == (language == "zh-hant")


def test_a_lost_node_is_shown_as_such_with_what_becomes_of_its_work(scene, pages):
    says = "keeps its devices until it is certain that it has ended"
    assert says not in pages.get(reverse("nodes")).content.decode()
    models.Node.objects.update(state=models.Node.State.LOST)
    text = pages.get(reverse("nodes")).content.decode()
    assert '<span class="tag evict">lost</span>' in text
    assert says in text


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_for_those_who_signed_in(scene, client, name):
    answer = client.get(reverse(name))
    assert answer.status_code == 302
    assert answer.url.startswith("/login")


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_style_attribute_an_inline_script_or_a_foreign_address(scene, pages, name):
    text = pages.get(reverse(name)).content.decode()
    assert " style=" not in text
    assert not re.search(r"<script(?![^>]*(?:src=|type=\"application/json\"))", text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)


def test_the_overview_shows_its_figures_without_scripts(scene, pages):
    text = pages.get("/").content.decode()
    for shown in ("59.25", "NT$833", "Taking its guarantee back from", "Over project limit"):
        assert shown in text


def test_a_reader_of_one_project_finds_no_foreign_name_on_any_page(scene, client, researcher):
    client.force_login(researcher)
    foreign = {
        *models.Project.objects.exclude(name="nlp-lab").values_list("name", flat=True),
        *models.Workload.objects.exclude(project__name="nlp-lab").values_list("name", flat=True),
    }
    for name in PAGES:
        text = client.get(reverse(name)).content.decode()
        assert [word for word in foreign if re.search(rf"\b{re.escape(word)}\b", text)] == [], name


def test_what_is_foreign_answers_as_what_is_not_there(scene, client, researcher):
    client.force_login(researcher)
    foreign = models.Workload.objects.get(name="llama-70b")
    theirs = client.get(reverse("workload", args=[foreign.pk]))
    nobodys = client.get(reverse("workload", args=[999_999]))
    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert theirs.content == nobodys.content
    assert "There is nothing here" in theirs.content.decode()
    for act in ("stop", "start", "delete"):
        assert client.post(reverse(f"workload_{act}", args=[foreign.pk])).status_code == 404


def test_submitting_from_the_page_makes_a_workload_that_waits(scene, pages):
    answer = pages.post("/workloads/new", {**FORM, "project": project("bio-fold").pk})
    made = models.Workload.objects.get(name="mine")
    assert answer.url == reverse("workload", args=[made.pk])
    assert (made.request_mgpu, made.devices, made.phase) == (90, 1, "pending")
    assert made.command == ["python3", "train.py", "--name", "a b"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("gpu", "0.0005", "at most three places"),
        ("gpu", "nan", "Not an amount of GPUs"),
        ("gpu", "1.5", "a replica takes whole GPUs"),
        ("name", "Not A Name", "small letters, digits and hyphens"),
        ("command", "echo 'unclosed", "A quote is not closed"),
        ("grace_s", "301", "300"),
    ],
)
def test_a_mistake_is_named_at_its_field_with_the_way_out(scene, pages, field, value, said):
    answer = pages.post("/workloads/new", {**FORM, field: value, "project": project("bio-fold").pk})
    assert said in " ".join(answer.context["form"].errors[field])
    assert not models.Workload.objects.filter(submitted_by="admin", name="mine").exists()


def test_a_taken_name_is_said_in_the_readers_language(scene, pages):
    pages.cookies["tidegate_language"] = "zh-hant"
    form = {**FORM, "name": "dock-77", "project": project("bio-fold").pk}
    answer = pages.post("/workloads/new", form)
    assert "bio-fold 已有名為 dock-77 的工作負載" in answer.content.decode()


def test_the_priority_trap_is_said_before_and_can_be_confirmed(scene, pages):
    """Given a project with a guarantee of 0, when a training is raised to high, then it is warned."""
    form = {**FORM, "project": project("prod-training").pk, "priority": "125"}
    warned = pages.post("/workloads/new", form)
    assert "it can&#x27;t be interrupted, so it may not borrow" in warned.content.decode()
    assert not models.Workload.objects.filter(name="mine").exists()
    pages.post("/workloads/new", {**form, "confirmed": "yes"})
    assert models.Workload.objects.get(name="mine").preemptible is False


def test_stop_start_and_delete_from_the_page(scene, pages):
    work = models.Workload.objects.get(name="seg-xl")
    pages.post(reverse("workload_stop", args=[work.pk]))
    work.refresh_from_db()
    assert work.phase == "stopped"
    pages.post(reverse("workload_start", args=[work.pk]))
    work.refresh_from_db()
    assert work.phase == "pending"
    pages.post(reverse("workload_delete", args=[work.pk]))
    assert pages.get(reverse("workload", args=[work.pk])).status_code == 404


def test_a_researcher_may_not_stop_a_service(scene, client):
    client.force_login(person("wu", Role.RESEARCHER, project="prod-inference"))
    service = models.Workload.objects.get(name="mixtral")
    text = client.get(reverse("workload", args=[service.pk])).content.decode()
    assert "View only" in text
    client.post(reverse("workload_stop", args=[service.pk]))
    service.refresh_from_db()
    assert not service.stop_requested


def test_a_viewer_is_not_offered_the_form(scene, client):
    client.force_login(person("kao", Role.VIEWER, project="nlp-lab"))
    page = client.get("/workloads/new")
    assert page.status_code == 200
    assert "Your role may only look at work." in page.content.decode()
    assert "<textarea" not in page.content.decode()
    assert client.post("/workloads/new", FORM).status_code == 403
    assert "View only" in client.get("/workloads").content.decode()


def test_an_empty_cluster_says_what_is_missing_for_a_workload(db, pages):
    page = pages.get("/workloads/new")
    assert page.status_code == 200
    assert "There is no node pool yet" in page.content.decode()
    assert "Choose a demonstration" in page.content.decode()


def test_all_mistakes_are_said_at_once(scene, pages):
    # Given a bad name, too many places and an unclosed quote in one form
    form = {
        **FORM,
        "project": project("bio-fold").pk,
        "name": "Not A Name",
        "gpu": "0.0005",
        "command": "echo 'unclosed",
    }
    # When it is sent, then each is named at its field
    errors = pages.post("/workloads/new", form).context["form"].errors
    assert set(errors) == {"name", "gpu", "command"}
    # And a name that is taken is among them
    errors = pages.post("/workloads/new", {**form, "name": "dock-77"}).context["form"].errors
    assert set(errors) == {"name", "gpu", "command"}
    assert "already has a workload called dock-77" in " ".join(errors["name"])


def test_what_a_kind_does_not_use_is_no_mistake(scene, pages):
    """Given a training, when the fields that only a service shows hold nonsense, then it is taken."""
    form = {**FORM, "project": project("bio-fold").pk, "threshold": "0", "min_replicas": ""}
    assert pages.post("/workloads/new", form).status_code == 302
    assert models.Workload.objects.get(name="mine").min_replicas == 1


def test_from_the_dialog_the_page_under_it_stays(scene, pages):
    # Given the form in the dialog of another page
    headers = {"HX-Request": "true"}
    assert 'name="dialog"' in pages.get("/workloads/new", headers=headers).content.decode()
    # When it is accepted
    form = {**FORM, "project": project("bio-fold").pk, "dialog": "yes"}
    answer = pages.post("/workloads/new", form, headers=headers)
    # Then nothing is loaded, and the page is told what to say and where it leads
    work = models.Workload.objects.get(name="mine")
    told = json.loads(answer.headers["HX-Trigger"])["submitted"]
    assert (told["name"], told["address"]) == ("mine", f"/workloads/{work.pk}")
    assert "HX-Redirect" not in answer.headers


def test_the_resume_check_is_shown(scene, pages):
    work = models.Workload.objects.get(name="pose-x")
    work.checkpoint = {"epoch": 21, "elapsed_s": "63.0", "best": "0.8223"}
    work.resumed = {
        "epoch": 21,
        "elapsed_s": "63.0",
        "best": "0.8223",
        "attempt": 2,
        "equal": True,
        "checkpoint": work.checkpoint,
    }
    work.save()
    text = pages.get(reverse("workload", args=[work.pk])).content.decode()
    assert "Resumed: equal to the checkpoint" in text
    assert "saved at epoch 21" in text
    assert "0.8223" in text


def test_an_empty_cluster_offers_the_demonstrations(db, pages):
    text = pages.get("/").content.decode()
    assert all(f'value="{name}"' in text for name in ("card", "server", "racks"))


def test_choosing_a_demonstration_fills_the_cluster(db, pages):
    pages.post("/demonstration", {"demo": "card"})
    assert models.Device.objects.filter(memory_mib=46_068).count() == 1
    assert "0.76" in pages.get("/quotas").content.decode()


def test_signing_in_with_a_wrong_password_says_so(admin, client):
    answer = client.post("/login", {"username": "admin", "password": "wrong"})
    assert "note bad" in answer.content.decode()


def test_theme_comes_from_the_cookie(scene, pages):
    pages.cookies["tidegate_theme"] = "dark"
    assert 'data-theme="dark"' in pages.get("/").content.decode()
    pages.cookies["tidegate_theme"] = '"><script>'
    assert "<script>" not in pages.get("/").content.decode()


@pytest.mark.parametrize(
    ("address", "lit", "how"),
    [
        ("/", "Overview", "page"),
        ("/workloads", "Workloads", "page"),
        ("/workloads/new", "Workloads", "true"),
        ("/reports/money", "Reports", "true"),
        ("/manage/quotas/schedule", "Quota editor", "true"),
        ("/account", None, None),
    ],
)
def test_the_menu_says_where_one_is(client, admin, scene, address, lit, how):
    client.force_login(admin)
    page = client.get(address).content.decode()
    found = re.findall(r'<a href="[^"]*" title="([^"]*)" aria-current="(\w+)"', page)
    assert found == ([(lit, how)] if lit else [])
