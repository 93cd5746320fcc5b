"""The consumption page: what it says, refuses, leads to, and tells over its socket."""

from __future__ import annotations

import json
import re

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.test import AsyncClient, Client

from access.models import AccessRule, User
from dashboard.asgi import application
from reports import numbers
from reports.asked import parse_asked
from reports.page import live_state, make_page
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.dashboard.conftest import page_headers
from tests.reports.ledgers import Ledger, utc

DAY = "period=custom&from=2026-11-02&to=2026-11-03&zone=UTC"


@pytest.fixture
def ledger(db):
    made = Ledger(price="74").department("dev", quota="1").department("ops")
    made.project("research", of="dev", quota="0.30").project("推論服務", of="dev", quota="0.30")
    made.project("web", of="ops", quota="0")
    made.quota("research", "0.15", since=utc(2026, 11, 2, 12))
    held = made.hold("research", "0.50", utc(2026, 11, 2, 9), utc(2026, 11, 2, 19))
    made.seen(held, utc(2026, 11, 2, 9), utc(2026, 11, 2, 11), idle=True)
    made.hold("web", "0.25", utc(2026, 11, 2), utc(2026, 11, 3), user="wendy")
    return made


@pytest.fixture
def admin(db):
    return User.objects.create_superuser("admin", password="x")


@pytest.fixture
def page(admin):
    client = Client()
    client.force_login(admin)
    return client


def cells(html, key):
    """The figures of one row of the table by their columns."""
    row = re.search(rf'<tr data-row="{key}">(.*?)</tr>', html, re.DOTALL).group(1)
    return dict(re.findall(r'data-cell="(\w+)"[^>]*>([^<]*)<', row))


def test_the_page_tells_the_figures_that_one_works_out_by_hand(ledger, page):
    html = page.get(f"/reports?{DAY}").content.decode()

    research = ledger.projects["research"]
    found = cells(html, f"{research.pk}-{research.department_id}")
    assert found == {
        "allocated": "5.00",
        "deserved": "5.40",
        # 3 h of 0.20, then 7 h of 0.35
        "over_quota": "3.05",
        "unused": "3.45",
        "idle": "1.00",
        "idle_share": "20%",
        "unknown": "4.00",
        "cpu": "0.00",
        "memory": "0.00",
        "cost": "370",
        "idle_cost": "74.00",
    }
    assert cells(html, "total")["allocated"] == "11.00"
    assert "It borrowed in 10 of 24 hours, 3.05 h in all; 20% of what it held was idle." in html
    assert "2026-11-02 00:00" in html


def test_the_page_by_department_tells_what_came_from_other_departments(ledger, page):
    html = page.get(f"/reports?{DAY}&by=department").content.decode()

    assert (
        cells(html, f"{ledger.departments['dev'].pk}-{ledger.departments['dev'].pk}")["beyond"]
        == "0.00"
    )
    assert cells(html, "total")["beyond"] == "6.00"


@pytest.mark.parametrize("by", ["cluster", "department", "project", "pool", "workload", "user"])
@pytest.mark.parametrize("step", ["whole", "hour", "day", "week", "month"])
def test_every_segment_and_step_has_a_page(ledger, page, by, step):
    answer = page.get(f"/reports?{DAY}&by={by}&step={step}&compare=1")

    assert answer.status_code == 200
    assert cells(answer.content.decode(), "total")["allocated"] == "11.00"


def test_a_filter_on_a_kind_leaves_the_guarantee_untold(ledger, page):
    html = page.get(f"/reports?{DAY}&kind=training").content.decode()

    assert cells(html, "total")["deserved"] == "–"
    assert cells(html, "total")["allocated"] == "11.00"


def test_what_can_not_be_answered_is_said_on_the_page(ledger, page):
    empty = page.get("/reports?period=custom&from=2026-11-02&to=2026-11-02&zone=UTC")
    zone = page.get("/reports?zone=Mars/Base")

    assert (empty.status_code, zone.status_code) == (400, 400)
    assert "The period is empty" in empty.content.decode()
    assert "There is no time zone Mars/Base" in zone.content.decode()


def test_a_period_without_anything_says_so(page):
    Ledger()

    html = page.get(f"/reports?{DAY}").content.decode()

    assert "Nothing was held or guaranteed in this period" in html


def test_a_project_member_sees_its_hours_alone_and_totals_of_them(ledger):
    member = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=member, role="researcher", project=ledger.projects["web"])
    client = Client()
    client.force_login(member)

    html = client.get(f"/reports?{DAY}").content.decode()
    intervals = client.get(f"/reports/intervals?{DAY}").content.decode()

    assert cells(html, "total")["allocated"] == "6.00"
    for told in (html, intervals):
        assert "research" not in told
        assert "推論服務" not in told


def test_a_figure_leads_to_the_intervals_it_sums(ledger, page):
    html = page.get(f"/reports?{DAY}").content.decode()
    address = re.search(r'href="(/reports/intervals\?[^"]*project=\d+[^"]*)"', html).group(1)

    listed = page.get(address.replace("&amp;", "&")).content.decode()

    assert "1</b> interval makes up the figure" in listed
    assert "6.000" in listed or "5.000" in listed


async def _download(admin, path):
    client = AsyncClient()
    await client.aforce_login(admin)
    answer = await client.get(path)
    body = (
        answer.content
        if not answer.streaming
        else b"".join([part async for part in answer.streaming_content])
    )
    return answer, body


@pytest.mark.django_db(transaction=True)
async def test_the_csv_is_streamed_and_called_as_offered(ledger, admin):
    answer, body = await _download(admin, f"/reports/consumption.csv?{DAY}")

    assert answer.streaming
    assert body.startswith(b"\xef\xbb\xbfsegment,")
    assert b",5.000,5.400,3.050," in body
    assert answer["Content-Disposition"].startswith(
        'attachment; filename="tidegate-consumption-project-20261102-20261103.csv"'
    )


@pytest.mark.django_db(transaction=True)
async def test_json_and_intervals_are_offered_too(ledger, admin):
    _, told = await _download(admin, f"/reports/consumption.json?{DAY}")
    _, intervals = await _download(admin, f"/reports/consumption.intervals.csv?{DAY}")
    refused, why = await _download(admin, f"/reports/consumption.parquet?{DAY}")

    assert json.loads(told)["total"]["gpu_over_quota_hours"] == "9.050"
    assert intervals.count(b"\r\n") == 3
    assert refused.status_code == 400
    assert b"pip install pyarrow" in why


def test_nobody_reads_reports_without_signing_in(ledger):
    for path in ("/reports", "/reports/consumption.csv", "/reports/intervals"):
        assert Client().get(path).status_code == 302


def test_the_running_periods_figures_move(ledger):
    # Given work that still holds 0.50 in a project that is guaranteed 0.15, idle until now
    ledger.hold("research", "0.50", utc(2026, 11, 4), None)
    interval = models.AllocationInterval.objects.get(to_us__isnull=True)
    seen = ledger.seen(interval, utc(2026, 11, 4), utc(2026, 11, 4, 1), idle=True)

    def read(now):
        asked = parse_asked(words={"period": ["today"], "zone": ["UTC"]}, zone="UTC", now=now)
        state = live_state(visible=WHOLE_CLUSTER, asked=asked, now=now)
        page = make_page(visible=WHOLE_CLUSTER, asked=asked, now=now)
        said = [[one.name, one.color, one.text] for one in page.sentences]
        assert state["sentences"] == said != []
        return state["exact"]

    first = read(utc(2026, 11, 4, 1))
    seen.to_us = to_us(utc(2026, 11, 4, 2))
    seen.save()
    second = read(utc(2026, 11, 4, 2))

    moved = {name: numbers.gpu_hours(second[name] - first[name]) for name in first}
    assert moved == {
        "allocated": "0.500",
        "deserved": "0.450",
        "over_quota": "0.350",
        "idle": "0.500",
    }


@pytest.mark.django_db(transaction=True)
async def test_the_socket_tells_the_figures_of_the_page(ledger, admin):
    socket = WebsocketCommunicator(
        application,
        f"/ws/report/?{DAY}&language=zh-Hant",
        headers=await database_sync_to_async(page_headers)(admin),
    )
    connected, _ = await socket.connect()
    try:
        assert connected
        told = json.loads(await socket.receive_from(timeout=20))
    finally:
        await socket.disconnect()
    assert told["t"] == "report", told
    assert told["total"]["over_quota"] == "9.05"
    assert told["tiles"]["over_quota"][1] == "佔已配置 82%"


@pytest.mark.django_db(transaction=True)
async def test_the_socket_is_closed_for_those_who_are_not_signed_in(ledger):
    socket = WebsocketCommunicator(
        application,
        f"/ws/report/?{DAY}",
        headers=[(b"origin", b"http://localhost"), (b"host", b"localhost")],
    )
    assert (await socket.connect())[0] is False


@pytest.mark.parametrize(
    ("figure", "said"), [("idle", ["idle", "1.000"]), ("deserved", ["still in force", "1.800"])]
)
def test_idle_and_guarantee_lead_to_what_stands_behind_them(ledger, page, figure, said):
    # Given the page, when a figure of research is followed
    html = page.get(f"/reports?{DAY}").content.decode()
    research = ledger.projects["research"].pk
    address = re.search(
        rf'data-cell="{figure}"[^>]*href="(/reports/intervals[^"]*project={research}&[^"]*)"', html
    ).group(1)
    told = page.get(address.replace("&amp;", "&")).content.decode()
    # Then what it sums stands there, each part with its hours in the period
    assert all(text in told for text in said)
    assert "web" not in told.partition("<tbody>")[2]
