"""The account of fixed partitions: the article's example, weekends, holidays, and both mistakes."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from django.test import Client

from access.models import User
from reports import simulated_day
from reports.refused import ReportRefused
from reports.savings import Assumptions, account, parse_assumptions, read_ledger, splits
from reports.simulated_day import picture
from scheduler.management.simulation.day import Day
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.reports.ledgers import Ledger, utc


def test_the_articles_example_wastes_a_third_of_26_million():
    found = account(of=Assumptions())

    assert found.total == 26_000_000
    assert found.idle == Fraction(2, 3)
    assert round(found.wasted) == 8_666_667
    assert round(found.wasted_a_month) == 144_444
    assert found.wasted_share == Fraction(1, 3)
    assert found.more_than_running


def test_with_weekends_the_inference_half_idles_above_seventy_percent():
    found = account(of=Assumptions(days_a_week=5))

    assert found.idle == 1 - Fraction(5 * 8, 7 * 24)
    assert found.idle > Fraction(7, 10)


def test_holidays_count_too():
    weekends = account(of=Assumptions(days_a_week=5))
    holidays = account(of=Assumptions(days_a_week=5, holidays=15))

    assert holidays.idle - weekends.idle == Fraction(15 * 8, 365 * 24)


def test_a_smaller_partition_answers_slowly_and_a_larger_one_makes_trainings_longer():
    found = splits(of=Assumptions())

    unserved = [one.unserved for one in found]
    assert unserved == sorted(unserved, reverse=True)
    assert (unserved[0], unserved[5], unserved[10]) == (1, 0, 0)
    factors = [one.training_factor for one in found[5:10]]
    assert factors == sorted(factors)
    assert found[5].training_factor == Fraction(5, 6) / Fraction(1, 2)
    assert found[10].training_factor is None


def test_a_shared_pool_without_inference_wastes_nothing():
    found = account(of=Assumptions(inference_percent=0))

    assert found.wasted == 0
    assert found.training_factor == 1


def test_assumptions_out_of_bounds_are_refused_in_words():
    for words in (
        {"hours_a_day": ["25"]},
        {"years": ["0"]},
        {"hardware": ["-1"]},
        {"years": ["x"]},
    ):
        with pytest.raises(ReportRefused, match="whole number from"):
            parse_assumptions(words=words)
    assert parse_assumptions(words={"hardware": ["1,000"]}).hardware == 1000


def test_the_ledgers_side_is_inference_of_the_last_thirty_days(db):
    ledger = Ledger().department("dev").project("a", of="dev")
    now = utc(2026, 11, 20)
    service = ledger.hold("a", "0.50", utc(2026, 11, 19), now, kind="inference")
    ledger.seen(service, utc(2026, 11, 19), utc(2026, 11, 19, 18), idle=True)
    ledger.hold("a", "0.50", utc(2026, 11, 19), now, kind="training")

    found = read_ledger(visible=WHOLE_CLUSTER, zone="UTC", now=now)

    assert (found.idle, found.share) == (Fraction(3, 4), Fraction(1, 2))
    # And at 400,000 a month its half wastes three quarters of 200,000; the account takes 6 hours a day
    assert found.wasted_a_month(total_a_month=Fraction(400_000)) == 150_000
    words = found.words(of=Assumptions(years=3))
    assert (words["years"], words["inference_percent"], words["hours_a_day"]) == (3, 50, 6)
    assert account(of=Assumptions(**words)).idle == Fraction(3, 4)


def test_the_simulated_day_is_drawn_from_its_figures():
    # Given a day of four steps on two GPUs, which inference and training share
    day = Day(
        name="day",
        inference_gpu=[1.0, 2.0, 0.0, 0.0],
        training_gpu=[1.0, 0.0, 2.0, 1.0],
        wanted_gpu=[1.0, 2.0, 0.0, 0.0],
    )

    drawn = picture(day, name="Shared pool")

    # Then inference is one, two, none and none high, training fills up what lies above it
    assert (drawn.width, drawn.height) == (12, 64)
    assert drawn.inference == "M0 62V62H3V60H6V64H9V64H12V64H0Z"
    assert drawn.training == "M0 60V60H3V60H6V60H9V62H12V64H0Z"


def test_the_simulated_day_stands_beside_the_account(client, db, monkeypatch):
    # Given days that are already worked out, and an administrator
    day = Day(name="d", inference_gpu=[16.0] * 96, training_gpu=[16.0] * 96, wanted_gpu=[16.0] * 96)
    half = Day(name="d", inference_gpu=[8.0] * 96, training_gpu=[16.0] * 96, wanted_gpu=[16.0] * 96)
    monkeypatch.setattr(simulated_day, "_days", lambda: (day, half))
    client.force_login(User.objects.create_superuser("admin", password="x"))

    told = client.get("/reports/savings/day").content.decode()

    rows = dict(re.findall(r'row">([^<]*)</th>((?:<td class="r">[^<]*</td>)+)', told))
    assert re.findall(r">([\d.]+)<", rows["Nobody, GPU hours"]) == ["0.0", "192.0"]
    assert re.findall(r">([\d.]+)<", rows["Wanted by inference and not got, GPU hours"]) == [
        "0.0",
        "192.0",
    ]


def test_the_page_tells_the_account_and_takes_other_figures(db):
    client = Client()
    client.force_login(User.objects.create_superuser("admin", password="x"))

    told = client.get("/reports/savings").content.decode()
    weekends = client.get("/reports/savings?days_a_week=5&holidays=15").content.decode()
    refused = client.get("/reports/savings?years=0")

    assert "8,666,667" in told
    assert "144,444" in told
    assert "more than the 100,000 that it costs to run" in told
    assert "78% of its time" in weekends
    assert refused.status_code == 400
