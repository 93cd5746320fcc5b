"""B34 and B35: names of every kind in every CSV, as a spreadsheet and Python's csv module read them."""

from __future__ import annotations

import csv
import io

import pytest
from django.test import Client

from access.models import User
from reports import csv_export
from scheduler import models
from scheduler.queries.csv_text import unguard
from tests.downloads import body_of
from tests.reports.ledgers import Ledger, utc

pytestmark = pytest.mark.django_db
NAMES = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "@sum(1)",
    "-team",
    "\ttab",
    'a, "b"\nc',
    "'quoted",
    "推論服務",
    "𠮷野家",
    "全形\u3000空白",
]
STARTS = ("=", "+", "-", "@", "\t", "\r")
DAY = "period=custom&from=2026-11-02&to=2026-11-03&zone=UTC"


@pytest.fixture
def ledger(db):
    """Projects, workloads, users and a department of such names, each with two hours of a quarter."""
    made = Ledger(price="74").department("正式區", quota="1")
    for name in NAMES:
        made.project(name, of="正式區", quota="0.10")
        held = made.hold(
            name, "0.25", utc(2026, 11, 2), utc(2026, 11, 2, 2), workload=f"{name} ", user=name
        )
        models.Workload.objects.filter(pk=held.workload_id).update(name=name)
        made.seen(held, utc(2026, 11, 2), utc(2026, 11, 2, 1), idle=True)
        models.AuditEntry.objects.create(
            at=utc(2026, 11, 2), actor=name, door="page", action="quota.set", object_kind="project",
            object_name=name, reason=name, result="done", before={"name": "x"}, after={"name": name},
        )  # fmt: skip
    return made


@pytest.fixture
def page(db):
    client = Client()
    client.force_login(User.objects.create_superuser("admin", password="x"))
    return client


def document(page, address):
    """The bytes of a download, however it is sent."""
    answer = page.get(address)
    assert answer.status_code == 200, address
    return body_of(answer), answer


def lines(content):
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


FILES = {
    f"/reports/consumption.csv?{DAY}&by=project": ["name"],
    f"/reports/consumption.csv?{DAY}&by=workload": ["name"],
    f"/reports/consumption.csv?{DAY}&by=user": ["name"],
    f"/reports/consumption.intervals.csv?{DAY}": ["project", "workload", "user"],
    f"/reports/consumption.activity.csv?{DAY}": ["project", "workload"],
    f"/reports/consumption.guarantee.csv?{DAY}": ["project"],
    f"/api/v1/reports/consumption.csv?{DAY}&by=user": ["name"],
    f"/api/v1/reports/intervals.csv?{DAY}": ["project", "workload", "user"],
    "/manage/audit.csv": ["Who", "Object", "Reason"],
}


@pytest.mark.parametrize("address", FILES)
def test_b34_no_cell_of_any_file_is_a_formula_and_every_name_is_recovered(ledger, page, address):
    content, _answer = document(page, address)
    rows = lines(content)

    # Every row has as many fields as the heading, whatever stands in the names
    assert all(None not in row and None not in row.values() for row in rows)
    for column in FILES[address]:
        assert set(NAMES) <= {unguard(row[column]) for row in rows}, column
    numbers = {"gpu_allocation_hours", "gpu_hours_in_period", "gpu", "cost", "idle_cost"}
    for row in rows:
        for column, cell in row.items():
            if column in numbers:
                assert cell == "" or float(cell) >= 0, (column, cell)
            else:
                assert not cell.startswith(STARTS), (column, cell)


def test_b34_numbers_stay_numbers_also_below_zero():
    told = b"".join(csv_export.stream(header=["a", "b"], lines=[["-0.25", "0.09"]]))
    assert [float(cell) for cell in lines(told)[0].values()] == [-0.25, 0.09]


@pytest.mark.parametrize("address", FILES)
def test_b35_the_mark_is_there_once_and_chinese_is_right(ledger, page, address):
    content, answer = document(page, address)

    assert content.startswith(b"\xef\xbb\xbf")
    assert content.count(b"\xef\xbb\xbf") == 1
    heading = content.decode("utf-8-sig").partition("\n")[0]
    assert "\ufeff" not in heading
    for name in ("推論服務", "𠮷野家", "全形\u3000空白"):
        assert name in content.decode("utf-8")
    offered = answer["Content-Disposition"]
    assert "filename*=UTF-8''" in offered or offered.isascii()


def test_b35_a_file_is_offered_in_utf_8_with_a_plain_name_to_fall_back_on():
    assert csv_export.disposition(name="報告.csv") == (
        "attachment; filename=\"__.csv\"; filename*=UTF-8''%E5%A0%B1%E5%91%8A.csv"
    )
