"""The page of a project or department: averages by hand, and who finds it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from access.models import AccessRule, User
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
