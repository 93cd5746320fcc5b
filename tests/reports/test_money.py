"""Budgets, their warnings, closed months and what is corrected later; who may and who sees."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.test import Client

from access.models import AccessRule, User
from reports import money, tasks
from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.operations import money as operations
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import StateRefused
from scheduler.queries import notices
from scheduler.queries.phrases import plain
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 11, 11)


@pytest.fixture
def ledger(db):
    """Half a GPU of research for October, one GPU of web in the first five days of November."""
    made = Ledger(price="10").department("dev", quota="1").department("ops", quota="1")
    made.project("research", of="dev", quota="1").project("web", of="ops", quota="1")
    made.hold("research", "0.50", utc(2026, 10, 1), utc(2026, 11, 1))
    made.hold("web", "1", utc(2026, 11, 1), utc(2026, 11, 6))
    return made


@pytest.fixture
def admin(db):
    client = Client()
    client.force_login(User.objects.create_superuser("admin", password="x"))
    return client


def budget(ledger, name, amount, level=Level.PROJECT):
    unit = (ledger.projects if level is Level.PROJECT else ledger.departments)[name]
    operations.set_budget(
        level=level, unit_id=unit.pk, monthly=Decimal(amount), authority=SYSTEM, now=NOW
    )


def line(name, now=NOW):
    return next(
        one for one in money.budget_lines(visible=WHOLE_CLUSTER, now=now) if one.unit.name == name
    )


def test_cost_forecast_and_share_of_the_budget(ledger):
    # Given 5 days of one GPU at 10 an hour in the first 10 days of a month of 30
    budget(ledger, "web", "2400")
    found = line("web")
    # Then 1,200 are spent, half of it, and 3,600 will be
    assert money.numbers.money(found.cost) == "1200.00"
    assert money.numbers.money(found.forecast) == "3600.00"
    assert (found.spent_percent, found.forecast_percent, found.level) == (50, 150, "over")


def test_people_are_told_once_at_each_mark(ledger, monkeypatch):
    # Given a budget of which 80 percent are spent, and an admin of the department
    head = User.objects.create_user("head", password="x")
    AccessRule.objects.create(
        user=head, role="department_admin", department=ledger.departments["ops"]
    )
    budget(ledger, "web", "1500")
    monkeypatch.setattr(tasks.timezone, "now", lambda: NOW)
    # When the watch looks twice
    tasks.watch_budgets()
    tasks.watch_budgets()
    # Then the admin is told once, in a sentence
    (told,) = notices.list_notices(username="head", visible=WHOLE_CLUSTER)
    assert (
        plain(told.text) == "web has spent 80% of its budget for 2026-11: NT$1,200 of NT$1,500.00."
    )
    # And the alert rules find what is spent
    watched = models.Budget.objects.get()
    assert (watched.spent_permille, watched.spent_at) == (800, NOW)
    # And again when all is spent, in a new month from the beginning
    ledger.hold("web", "1", utc(2026, 11, 6), utc(2026, 11, 11))
    tasks.watch_budgets()
    assert [row.params["percent"] for row in models.Notification.objects.order_by("id")] == [
        80,
        100,
    ]
    assert models.Budget.objects.get().warned_month == "2026-11"


def test_what_is_spent_between_two_looks_is_told_by_the_highest_mark_it_passed(ledger, monkeypatch):
    # Given an admin who was told of 80 percent
    head = User.objects.create_user("head", password="x")
    AccessRule.objects.create(
        user=head, role="department_admin", department=ledger.departments["ops"]
    )
    budget(ledger, "web", "1500")
    monkeypatch.setattr(tasks.timezone, "now", lambda: NOW)
    tasks.watch_budgets()
    # When 152 percent are spent by the next look
    ledger.hold("web", "1", utc(2026, 11, 6), utc(2026, 11, 10, 12))
    assert line("web").spent_percent == 152
    tasks.watch_budgets()
    tasks.watch_budgets()
    # Then one notice says that all is spent, and how much
    percents = [row.params["percent"] for row in models.Notification.objects.order_by("id")]
    assert percents == [80, 100]
    told = [plain(row.text) for row in notices.list_notices(username="head", visible=WHOLE_CLUSTER)]
    assert "web has spent 100% of its budget for 2026-11: NT$2,280 of NT$1,500.00." in told
    assert models.Budget.objects.get().spent_permille == 1520


def test_a_closed_month_is_frozen_and_numbered_and_later_changes_are_corrections(ledger, admin):
    # When October is closed
    answer = admin.post("/reports/money/close", {"month": "2026-10"})
    assert answer.status_code == 302, answer.content.decode()
    first = admin.get("/reports/statements/1").content.decode()
    assert "3,720" in first
    # And a forgotten interval of October turns up in November
    ledger.hold("web", "1", utc(2026, 10, 30), utc(2026, 10, 30, 10))
    assert "2026-10 web: 100 NT$" in admin.get("/reports/money").content.decode()
    # Then the statement stays, and the next one has the difference as a line of its own
    assert admin.get("/reports/statements/1").content.decode().count("web") == first.count("web")
    zone, lines, corrections = money.prepare(month="2026-11", now=utc(2026, 12, 2))
    number = operations.close_month(
        month="2026-11",
        zone=zone,
        lines=lines,
        corrections=corrections,
        authority=SYSTEM,
        now=utc(2026, 12, 2),
    )
    assert number == 2
    assert money.outstanding(now=utc(2026, 12, 3)) == {}
    rows = list(
        csv.DictReader(
            io.StringIO(admin.get("/reports/statements/2.csv").content.decode("utf-8-sig"))
        )
    )
    assert [(row["kind"], row["month"], row["project"], row["cost"]) for row in rows] == [
        ("use", "2026-11", "web", "1200.00"),
        ("correction", "2026-10", "web", "100.00"),
    ]
    assert models.AuditEntry.objects.filter(action="month.close").count() == 2


def test_the_page_offers_the_last_month_until_it_is_closed(ledger, admin, time_machine):
    time_machine.move_to(NOW)
    page = admin.get("/reports/money").content.decode()
    assert 'name="month" value="2026-10"' in page
    admin.post("/reports/money/close", {"month": "2026-10"})
    assert 'name="month" value=""' in admin.get("/reports/money").content.decode()
    assert money.month_before("2027-01") == "2026-12"


def test_a_month_is_closed_once_in_order_and_after_its_end(ledger, admin):
    assert admin.post("/reports/money/close", {"month": "2099-01"}).status_code == 400
    for wrong in ("soon", "", "9999-12", "0001-01", "2026-13", "２０２６-１０"):
        assert admin.post("/reports/money/close", {"month": wrong}).status_code == 400, wrong
    assert "Give a month such as 2026-11." in (
        admin.post("/reports/money/close", {"month": "soon"}).content.decode()
    )
    admin.post("/reports/money/close", {"month": "2026-10"})
    answer = admin.post("/reports/money/close", {"month": "2026-09"})
    assert answer.status_code == 400
    assert "closed already" in answer.content.decode()
    with pytest.raises(StateRefused):
        operations.close_month(
            month="2026-10", zone="UTC", lines=[], corrections=[], authority=SYSTEM, now=NOW
        )


def test_people_see_and_set_their_own_scope_alone(ledger, admin):
    admin.post("/reports/money/close", {"month": "2026-10"})
    mia = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=mia, role="researcher", project=ledger.projects["web"])
    client = Client()
    client.force_login(mia)
    html = client.get("/reports/money").content.decode()
    assert "web" in html
    assert "research" not in html
    assert "Set the budget" not in html
    assert client.get("/reports/statements/1").status_code == 404
    assert client.get("/reports/statements/1.csv").status_code == 404
    assert client.post("/reports/money/close", {"month": "2026-10"}).status_code == 403
    unit = f"project-{ledger.projects['web'].pk}"
    assert client.post("/reports/money/budget", {"unit": unit, "monthly": "5"}).status_code == 403
    other = f"project-{ledger.projects['research'].pk}"
    assert client.post("/reports/money/budget", {"unit": other, "monthly": "5"}).status_code == 404
    assert not models.Budget.objects.exists()


def test_an_amount_that_is_none_is_refused_with_the_way_out(ledger, admin):
    unit = f"project-{ledger.projects['web'].pk}"
    for text in ("many", "-5", "NaN"):
        answer = admin.post("/reports/money/budget", {"unit": unit, "monthly": text})
        assert answer.status_code == 400, text
    answer = admin.post("/reports/money/budget", {"unit": unit, "monthly": "1" + 12 * "0"})
    assert "Give an amount above 0, at most 999,999,999,999.99." in answer.content.decode()
    assert (
        admin.post("/reports/money/budget", {"unit": unit, "monthly": "1,500"}).status_code == 302
    )
    assert models.Budget.objects.get().monthly == Decimal("1500.00")
    admin.post("/reports/money/budget", {"unit": unit, "monthly": ""})
    assert not models.Budget.objects.exists()
    assert models.AuditEntry.objects.filter(action="budget.set").count() == 2


def test_months_are_those_of_the_clusters_zone(ledger):
    assert (
        money.month_of(now=datetime(2026, 11, 30, 17, tzinfo=UTC), zone="Asia/Taipei") == "2026-12"
    )


def test_a_month_in_which_nothing_was_held_has_a_statement_of_nothing(ledger, admin, time_machine):
    # Given a month before the first work, when it is closed
    time_machine.move_to(NOW, tick=False)
    closed = admin.post("/reports/money/close", {"month": "2026-08"}, follow=True)
    # Then its statement says so, and stands in the list, for who sees the whole cluster
    assert "Nothing was held in this month." in closed.content.decode()
    assert 'href="/reports/statements/1"' in admin.get("/reports/money").content.decode()
    told = admin.get("/api/v1/reports/statements").json()["items"]
    assert [(row["number"], row["month"], row["cost"]) for row in told] == [(1, "2026-08", "0.00")]
    # And for others there is none
    member = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=member, role="researcher", project=ledger.projects["web"])
    client = Client()
    client.force_login(member)
    assert client.get("/reports/statements/1").status_code == 404
    assert 'href="/reports/statements/1"' not in client.get("/reports/money").content.decode()
