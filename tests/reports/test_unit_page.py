"""The page of a project or department: averages by hand, and who finds it."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from access.models import AccessRule, User
from scheduler import models
from tests.dashboard.scene import lay_scene
from tests.reports.ledgers import Ledger


@pytest.fixture
def ledger(db):
    now = timezone.now()
    made = Ledger(price="10").department("dev", quota="1").department("ops", quota="1")
    made.project("research", of="dev", quota="0.30").project("web", of="ops", quota="0.10")
    held = made.hold("research", "0.60", now - timedelta(days=3), now - timedelta(days=1, hours=12))
    made.seen(held, now - timedelta(days=3), now - timedelta(days=2, hours=12), idle=True)
    made.hold("web", "0.10", now - timedelta(hours=12), None)
    return made


def client_of(user):
    client = Client()
    client.force_login(user)
    return client


def test_averages_of_a_day_a_week_and_a_month(ledger):
    # Given 0.60 held for 36 hours up to a day and a half ago, a third of it idle
    admin = client_of(User.objects.create_superuser("admin", password="x"))
    html = admin.get(f"/projects/{ledger.projects['research'].slug}").content.decode()
    rows = {
        row.partition("</th>")[0].rpartition(">")[2]: row
        for row in html.partition("On average")[2].split("<tr>")[1:]
    }
    # Then nothing in the last day, 0.60 x 36 / 168 in the week, two thirds of it computing
    assert ">0.00<" in rows["24 hours"]
    assert ">0.13<" in rows["7 days"]
    assert ">67%<" in rows["7 days"]
    assert ">0.03<" in rows["30 days"]
    # And the department's page has the same, and the project among its own
    html = admin.get(f"/departments/{ledger.departments['dev'].slug}").content.decode()
    assert ">0.13<" in html
    assert "research" in html
    assert "web" not in html.partition("<main")[2]


def test_units_of_others_do_not_exist(ledger):
    mia = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=mia, role="researcher", project=ledger.projects["web"])
    client = client_of(mia)
    assert client.get(f"/projects/{ledger.projects['web'].slug}").status_code == 200
    assert client.get(f"/projects/{ledger.projects['research'].slug}").status_code == 404
    # Its own department's page tells of the whole department, which is not its own
    assert client.get(f"/departments/{ledger.departments['ops'].slug}").status_code == 404
    assert client.get("/projects/none").status_code == 404


@pytest.fixture
def lab(db):
    """The cluster of the dashboard's tests, and who looks at it."""
    lay_scene(now=timezone.now())
    return {
        project.name: project for project in models.Project.objects.select_related("department")
    }


def page_of(client, unit):
    kind = "projects" if isinstance(unit, models.Project) else "departments"
    answer = client.get(f"/{kind}/{unit.slug}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_unit_page_says_what_is_held_what_may_be_borrowed_and_who_takes_it_back(lab):
    admin = client_of(User.objects.create_superuser("admin", password="x"))
    # Given nlp-lab within its guarantee, dev-train 3.00 above it in a department above its own
    within = page_of(admin, lab["nlp-lab"])
    borrows = page_of(admin, lab["dev-train"])
    department = page_of(admin, lab["dev-train"].department)

    assert "nlp-lab holds 6.25 of 10.00 guaranteed. It may borrow, up to 16.00 in all." in within
    assert "Nothing it holds can be taken by others." in within
    assert f'data-project="{lab["nlp-lab"].pk}"' in within
    # Then whoever has unused guarantee, in whatever department, is named, the largest first
    told = "Other projects that ask for their guarantee can take back 3.00 of it."
    assert told in borrows
    unused = borrows.partition("Guarantees that are unused now: ")[2].partition("</p>")[0]
    assert "nlp-lab 3.75" in unused
    assert "dev-train" not in unused
    assert "Other departments that ask for their guarantee" in department


def test_a_project_that_borrows_from_siblings_alone_gives_back_to_them(lab):
    admin = client_of(User.objects.create_superuser("admin", password="x"))
    # Given the department guaranteed more than it holds
    models.DepartmentQuota.objects.filter(department=lab["dev-train"].department).update(
        quota_mgpu=40_000, limit_mgpu=50_000
    )
    told = page_of(admin, lab["dev-train"])
    assert "Projects of its department that ask for their guarantee can take back 3.00" in told
    assert "nlp-lab" not in told.partition("Guarantees that are unused now")[2].partition("</p>")[0]


def test_a_unit_page_lists_its_living_work_its_rules_and_its_share(lab):
    admin = client_of(User.objects.create_superuser("admin", password="x"))
    models.IdlePolicy.objects.create(
        department=lab["nlp-lab"].department, kind="training", idle_limit_s=1800
    )
    html = page_of(admin, lab["nlp-lab"])
    work = html.partition('id="h-work"')[2].partition("</section>")[0]
    rules = html.partition('id="h-unit-rules"')[2].partition("</section>")[0]
    assert "nlp-pre" in work
    assert "llama-sft" not in work
    assert "by its department: 30 min" in rules
    assert "sharebar" in rules


def test_members_are_told_to_those_who_give_roles_there_alone(lab):
    project, other = lab["nlp-lab"], lab["vision-lab"]
    for name, role, scope in (
        ("mia", "researcher", {"project": project}),
        ("ida", "project_admin", {"project": project}),
        ("dan", "department_admin", {"department": project.department}),
        ("vic", "researcher", {"project": other}),
    ):
        user = User.objects.create_user(name, password="x")
        AccessRule.objects.create(user=user, role=role, **scope)

    def members(name):
        html = page_of(client_of(User.objects.get(username=name)), project)
        return re.findall(r'<td class="nm">(\w+)</td>', html.partition('id="h-members"')[2])

    assert members("mia") == []
    assert members("ida") == ["ida", "mia", "dan"]
    assert members("dan") == ["ida", "mia", "dan"]


def test_a_member_of_one_project_reads_of_no_other_there(lab):
    mia = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=mia, role="researcher", project=lab["dev-train"])
    html = page_of(client_of(mia), lab["dev-train"]).partition("<main")[2]
    assert "dev-train holds" in html
    for name in lab.keys() - {"dev-train"}:
        assert name not in html


def test_who_may_not_change_a_units_quota_reads_that_it_is_for_viewing_only(ledger):
    research, dev = ledger.projects["research"], ledger.departments["dev"]
    mia = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=mia, role="researcher", project=research)
    dan = User.objects.create_user("dan", password="x")
    AccessRule.objects.create(user=dan, role="department_admin", department=dev)
    root = User.objects.create_superuser("root", password="x")
    pages = (f"/projects/{research.slug}", f"/departments/{dev.slug}")
    told = {
        (user.username, path.split("/")[1]): "View only" in answer.content.decode()
        for user in (mia, dan, root)
        for path in pages
        if (answer := client_of(user).get(path)).status_code == 200
    }
    assert told[("mia", "projects")]
    assert not told[("dan", "projects")]
    assert told[("dan", "departments")]
    assert not told[("root", "projects")]
    assert not told[("root", "departments")]
