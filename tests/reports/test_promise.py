"""How guarantees were kept, out of the ledger: by hand, and after the tick's own reclaims."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.test import Client

from access.models import AccessRule, User
from reports import promise
from reports.consumption import ReportRequest
from reports.periods import make_span
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.downloads import body_of
from tests.reports.ledgers import Ledger, utc
from tests.scheduler import places
from tests.scheduler.conftest import ticker  # noqa: F401

NOW = utc(2026, 11, 3)
DAY = "period=custom&from=2026-11-02&to=2026-11-03&zone=UTC"


@pytest.fixture
def ledger(db):
    """Research borrows, production takes its guarantee back and waits 40 s for it."""
    made = Ledger().department("dev", quota="1")
    made.project("research", of="dev", quota="0.10").project("prod", of="dev", quota="0.50")
    since, until = utc(2026, 11, 2, 9), utc(2026, 11, 2, 12)
    made.hold(
        "research",
        "0.60",
        since,
        until,
        asked_us=to_us(since),
        running_us=to_us(since),
        ended_by="reclaim",
        ended_for=made.projects["prod"],
        lost_us=1_800_000_000,
    )
    made.hold(
        "prod",
        "0.50",
        until,
        None,
        asked_us=to_us(utc(2026, 11, 2, 11, 59, 30)),
        running_us=to_us(utc(2026, 11, 2, 12, 0, 10)),
    )
    return made


def lines(now=NOW, visible=WHOLE_CLUSTER):
    span = make_span(from_at=utc(2026, 11, 2), to_at=utc(2026, 11, 3), zone="UTC", now=now)
    request = ReportRequest(span=span)
    return {
        line.project: line for line in promise.make_lines(visible=visible, request=request, now=now)
    }


def test_waits_interruptions_and_lost_work_are_those_of_the_facts(ledger):
    found = lines()
    prod, research = found["prod"].promise, found["research"].promise
    # Production was entitled since it asked, 30 s before its devices were free
    assert prod.kept.waits_us == (40_000_000,)
    assert prod.kept.short_us == 30_000_000
    assert (prod.suffered, prod.caused) == (0, 1)
    # Research borrowed: it had no promise, and lost half an hour of 0.60
    assert research.kept.waits_us == ()
    assert (research.suffered, research.caused) == (1, 0)
    assert promise.shown(research)["lost"] == "0.30"


def test_page_and_csv_tell_the_same(ledger, admin):
    client = Client()
    client.force_login(admin)
    html = client.get(f"/reports/promise?{DAY}").content.decode()
    assert "40.0 s" in html
    answer = client.get(f"/reports/consumption.promise.csv?{DAY}")
    rows = list(csv.DictReader(io.StringIO(body_of(answer).decode("utf-8-sig"))))
    assert [row["wait_p95_seconds"] for row in rows] == ["40.000", ""]
    said = client.get(f"/api/v1/reports/promise?{DAY}").json()
    assert said == [{name: row[name] for name in said[0]} for row in rows]


def test_b31_hours_of_waiting_are_told_apart_and_add_up_over_periods(ledger, admin):
    # Given the training of B31: 0.50 without a guarantee, preempted 10:20-10:50, and one that waits
    ledger.project("guests", of="dev", quota="0")
    for begin, end, asked in ((10, 10.333334, None), (10.833334, 11, 10.333334)):
        ledger.hold(
            "guests",
            "0.50",
            hour(begin),
            hour(end),
            workload="train",
            asked_us=None if asked is None else to_us(hour(asked)),
        )
    client = Client()
    client.force_login(admin)

    def waited(begin, end):
        query = f"period=custom&zone=UTC&from={begin}&to={end}"
        found = client.get(f"/api/v1/reports/promise?{query}").json()
        return {row["project"]: row["gpu_waiting_hours"] for row in found}

    # Then half an hour of a half was waited for: what held time plus waiting would have charged is apart
    assert waited("2026-11-02T10:00", "2026-11-02T11:00")["guests"] == "0.250"
    assert waited("2026-11-02T10:00", "2026-11-02T10:30")["guests"] == "0.083"
    assert waited("2026-11-02T10:30", "2026-11-02T11:00")["guests"] == "0.167"
    # Production waited 30 s for 0.50
    assert waited("2026-11-02", "2026-11-03")["prod"] == "0.004"
    html = client.get(f"/reports/promise?{DAY}").content.decode()
    assert "Waited GPU h" in html
    assert '<td class="r nowrap">0.25</td>' in html


def hour(number):
    return utc(2026, 11, 2) + timedelta(hours=number)


def test_others_do_not_exist_on_it(ledger):
    member = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=member, role="researcher", project=ledger.projects["prod"])
    client = Client()
    client.force_login(member)
    html = client.get(f"/reports/promise?{DAY}").content.decode()
    assert "prod" in html
    assert "research<" not in html
    assert "research " not in html.partition("<tbody>")[2]


def test_an_empty_period_and_one_that_is_too_long_say_so(db, admin):
    client = Client()
    client.force_login(admin)
    assert "Nothing was asked for" in client.get(f"/reports/promise?{DAY}").content.decode()
    year = "period=custom&from=2026-01-01&to=2026-11-01&zone=UTC"
    answer = client.get(f"/reports/promise?{year}")
    assert answer.status_code == 400
    assert "at most 100 days" in answer.content.decode()


@pytest.fixture
def admin(db):
    return User.objects.create_superuser("admin", password="x")


@pytest.mark.django_db(transaction=True)
def test_a_reclaim_of_the_tick_is_a_kept_promise_with_its_wait(ticker):  # noqa: F811
    # Given unit-a on the whole of dev-test, and unit-c which asks for its guarantee
    place = places.article()
    for number in range(8):
        place.submit(
            f"a-{number}", of="unit-a", gpu="0.09", command=["fake", "ignores-term"], grace_s=5
        )
    ticker.settle(ticks=2, seconds=60)
    asked = ticker.clock()
    place.submit("c-1", of="unit-c", gpu="0.09", command=["fake"], at=asked)
    ticker.settle(ticks=8)
    # Then the ledger says who was interrupted for whom, what was lost, and how long it took
    row = models.AllocationInterval.objects.get(workload=place.workloads["c-1"])
    assert row.asked_us == to_us(asked)
    found = lines(now=ticker.clock())
    assert found["unit-c"].promise.kept.waits_us == (row.running_us - row.asked_us,)
    assert found["unit-c"].promise.caused == 1
    assert found["unit-a"].promise.suffered == 1
    assert found["unit-a"].promise.lost > 0
