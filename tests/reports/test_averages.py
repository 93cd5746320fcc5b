"""What projects held on average over the last 24 hours: the ledger's hours, equal to tiles, map and tree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from access.models import AccessRule, User
from reports.averages import averages_by_project
from reports.consumption import ReportRequest, make_report
from reports.numbers import decimal_text
from scheduler import models
from scheduler.core.instants import from_us, to_us
from scheduler.core.vocabulary import Kind
from scheduler.queries import cluster_map, overview
from scheduler.queries.day import begin_of_records
from scheduler.queries.visibility import SYSTEM as ALL
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from scheduler.tick import ledger as writer
from tests.reports.ledgers import Ledger, utc
from tests.scheduler import places
from tests.scheduler.conftest import ticker  # noqa: F401

NOW = utc(2026, 11, 20, 12)


def averages(ledger, visible=WHOLE_CLUSTER, now=NOW):
    begin_us = begin_of_records(visible=visible, pool_id=ledger.pool.pk, now=now)
    return averages_by_project(
        visible=visible, pool_id=ledger.pool.pk, begin_us=begin_us, zone="UTC", now=now
    )


def test_a_day_is_averaged_by_hand(db):
    # Given 0.60 for 12 of the last 24 hours, 3 of them idle, 0.20 for all of them, and older hours
    ledger = Ledger().department("dev", quota="1")
    ledger.project("research", of="dev", quota="0.30").project("web", of="dev", quota="0.50")
    ledger.project("old", of="dev")
    held = ledger.hold("research", "0.60", utc(2026, 11, 20), NOW)
    ledger.seen(held, utc(2026, 11, 20), utc(2026, 11, 20, 3), idle=True)
    ledger.hold("web", "0.20", utc(2026, 11, 18), None)
    ledger.hold("old", "1", utc(2026, 11, 10), utc(2026, 11, 12))

    found = averages(ledger)

    told = {one.label: (one.held, one.idle, one.borrowed, one.utilization) for one in found.rows}
    assert told == {
        "research": ("0.30", "0.08", "0.15", "75%"),
        "web": ("0.20", "0.00", "0.00", "100%"),
    }
    assert (found.total.held, found.total.idle) == ("0.50", "0.08")


def test_a_cluster_younger_than_a_day_is_averaged_since_its_first_hour(db):
    ledger = Ledger().department("dev").project("a", of="dev")
    ledger.hold("a", "0.50", NOW - timedelta(hours=1), None)

    assert averages(ledger).total.held == "0.50"


def test_nothing_held_is_nothing_and_others_do_not_exist(db):
    ledger = Ledger().department("dev").project("mine", of="dev").project("theirs", of="dev")
    assert averages(ledger) is None
    ledger.hold("theirs", "0.50", NOW - timedelta(hours=2), None)
    ledger.hold("mine", "0.10", NOW - timedelta(hours=1), None)

    member = Visibility(project_ids=frozenset({ledger.projects["mine"].pk}))
    found = averages(ledger, visible=member)

    assert [one.label for one in found.rows] == ["mine"]
    assert found.total.held == "0.10"


@pytest.mark.django_db(transaction=True)
def test_what_is_held_all_the_time_is_the_same_on_tiles_map_tree_report_and_average(ticker):  # noqa: F811
    # Given three services of 0.42 that idle and a training of 0.09 that computes, since one instant
    place = places.article()
    service = {"kind": Kind.INFERENCE, "command": ["fake"]}
    place.submit("chat", of="dev-chat", gpu="0.20", **service)
    place.submit("embed", of="dev-embed", gpu="0.10", **service)
    place.submit("answers", of="prod-inference", gpu="0.12", **service)
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    begins = set(models.AllocationInterval.objects.values_list("from_us", flat=True))
    begin_us = max(begins)
    until = from_us(begin_us) + timedelta(hours=1)
    models.ActivityInterval.objects.all().delete()
    for replica in models.Replica.objects.select_related("workload"):
        idle = replica.workload.name != "train"
        models.Replica.objects.filter(pk=replica.pk).update(idle=idle, sampled_at=until)
        writer.record_activity(
            replica=replica,
            project_id=replica.workload.project_id,
            pool_id=replica.workload.pool_id,
            idle=idle,
            since=from_us(begin_us),
            until=until,
        )
    # When all are asked about the hour since
    told = overview.read_overview(visible=ALL, now=until)
    found = averages_by_project(
        visible=ALL, pool_id=place.pool.pk, begin_us=begin_us, zone="UTC", now=until
    )
    hour = make_report(visible=ALL, request=ReportRequest(span=found.asked.request.span), now=until)
    # Then the averages are what tiles, map and tree show, and the report's hours in one hour
    by_project = {one.label: (one.held, one.idle) for one in found.rows}
    tree = {
        row.name: (shown(row.held_mgpu), shown(row.idle_mgpu))
        for row in told.tree.rows
        if not row.is_department and row.held_mgpu
    }
    on_map = [part for parts in told.map.slices.values() for part in parts]
    idle_mgpu = sum(part.mgpu for part in on_map if part.flags & cluster_map.IDLE)
    report = hour.total.figures
    assert by_project == tree
    assert (found.total.held, found.total.idle) == ("0.51", "0.42")
    assert (told.tiles.held_mgpu, told.tiles.idle_mgpu) == (510, 420)
    assert (sum(part.mgpu for part in on_map), idle_mgpu) == (510, 420)
    assert (report.allocated, report.idle) == (510 * 3_600_000_000, 420 * 3_600_000_000)


def shown(mgpu):
    return decimal_text(amount=mgpu, unit=1000, places=2)


def test_the_overview_has_them_and_a_member_reads_its_own_alone(ticker, db):  # noqa: F811
    place = places.article()
    place.submit("a", of="unit-a", gpu="0.09", command=["fake"], at=ticker.clock())
    ticker.settle()
    mia = User.objects.create_user("mia", password="x")
    AccessRule.objects.create(user=mia, role="researcher", project=place.projects["unit-b"])
    admin = User.objects.create_superuser("admin", password="x")

    pages = {}
    for user in (admin, mia):
        client = Client()
        client.force_login(user)
        pages[user.username] = client.get("/overview/averages").content.decode()

    assert "unit-a" in pages["admin"]
    assert "Nothing was held in the last 24 hours." in pages["mia"]
    assert "unit-a" not in pages["mia"]


def test_the_window_is_told_in_instants(db):
    ledger = Ledger().department("dev").project("a", of="dev")
    ledger.hold("a", "0.50", NOW - timedelta(days=3), None)

    begin_us = begin_of_records(visible=WHOLE_CLUSTER, pool_id=ledger.pool.pk, now=NOW)

    assert begin_us == to_us(NOW - timedelta(days=1))
