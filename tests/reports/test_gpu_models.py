"""What hours cost by GPU model: that of their time, at the price in force, also after changes."""

from __future__ import annotations

import importlib
import pkgutil
from decimal import Decimal

from django.apps import apps

import scheduler.migrations
from reports.consumption import ReportRequest, Segment, make_report
from reports.periods import make_span
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import CURRENCY
from scheduler.operations import settings, usage_rollup
from scheduler.operations.authority import SYSTEM
from scheduler.queries import usage_blocks
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 11, 10)


def cost(begin, end):
    span = make_span(from_at=begin, to_at=end, zone="UTC", now=NOW)
    request = ReportRequest(span=span, segment=Segment.CLUSTER)
    found = make_report(visible=WHOLE_CLUSTER, request=request, now=NOW).total.figures.cost
    assert found % CURRENCY == 0
    return found // CURRENCY


def made():
    return (
        Ledger(price="10", gpu_model="L40S")
        .price("40", since=utc(2020, 1, 1), gpu_model="H100")
        .department("dev")
        .project("a", of="dev")
    )


def test_hours_keep_the_price_of_the_model_on_which_they_were_held(db):
    # Given a GPU held for a day, and its card changed for a dearer one afterwards
    ledger = made()
    ledger.hold("a", "1", utc(2026, 11, 1), utc(2026, 11, 2))
    models.Device.objects.update(model="H100")
    ledger.hold("a", "1", utc(2026, 11, 2), utc(2026, 11, 3))
    # Then the first day costs what the old one cost
    assert cost(utc(2026, 11, 1), utc(2026, 11, 2)) == 240
    assert cost(utc(2026, 11, 2), utc(2026, 11, 3)) == 960


def test_devices_of_two_models_cost_their_mean(db):
    ledger = made()
    held = ledger.hold("a", "1", utc(2026, 11, 1), utc(2026, 11, 1, 2))
    models.AllocationInterval.objects.filter(pk=held.pk).update(gpu_models=["L40S", "H100"])

    assert cost(utc(2026, 11, 1), utc(2026, 11, 2)) == 50


def test_a_price_from_a_date_leaves_the_hours_before_it_rolled_up(db):
    # Given nine days of one GPU, rolled up
    ledger = made()
    ledger.hold("a", "1", utc(2026, 11, 1), utc(2026, 11, 10))
    usage_rollup.catch_up(now=NOW, within_s=60)
    assert usage_blocks.rolled_until() > to_us(utc(2026, 11, 9))
    # When it becomes dearer on the 5th
    settings.set_price(
        gpu_model="L40S",
        price_per_hour=Decimal(20),
        from_at=utc(2026, 11, 5),
        authority=SYSTEM,
        now=NOW,
    )
    # Then only the hours from then on are rolled up anew, and all cost what they should
    assert usage_blocks.rolled_until() == to_us(utc(2026, 11, 5))
    assert cost(utc(2026, 11, 1), utc(2026, 11, 9)) == 4 * 240 + 4 * 480
    usage_rollup.catch_up(now=NOW, within_s=60)
    assert cost(utc(2026, 11, 1), utc(2026, 11, 9)) == 4 * 240 + 4 * 480
    assert list(usage_rollup.differences(now_us=to_us(NOW))) == []
    # And when the price is taken away again
    price = models.GpuPrice.objects.get(gpu_model="L40S", from_at=utc(2026, 11, 5))
    settings.remove_price(price_id=price.pk, authority=SYSTEM, now=NOW)
    assert cost(utc(2026, 11, 1), utc(2026, 11, 9)) == 8 * 240


def test_intervals_of_before_are_given_what_the_tables_still_know(db):
    # Given an interval without what it would be written with today
    ledger = made()
    held = ledger.hold("a", "1", utc(2026, 11, 1), utc(2026, 11, 2))
    held.replica.running_at = utc(2026, 11, 1, 0, 1)
    held.replica.stop_code = "by_user"
    held.replica.save()
    models.AllocationInterval.objects.update(gpu_models=[])
    # When the migration fills it in
    name = next(
        found.name
        for found in pkgutil.iter_modules(scheduler.migrations.__path__)
        if found.name.endswith("ledger_of_starts")
    )
    importlib.import_module(f"scheduler.migrations.{name}").fill(apps, None)
    # Then it has its model, when it was asked for and ran, and why it ended
    row = models.AllocationInterval.objects.get()
    assert row.gpu_models == ["L40S"]
    assert row.asked_us == row.from_us == to_us(utc(2026, 11, 1))
    assert row.running_us == to_us(utc(2026, 11, 1, 0, 1))
    assert row.ended_by == "by_user"
