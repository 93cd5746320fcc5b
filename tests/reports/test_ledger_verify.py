"""What ``ledger verify`` finds in a ledger that was tampered with, and that a sound one passes."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.queries.usage_check import check_ledger
from tests.reports.ledgers import Ledger, utc

NOW_US = to_us(utc(2026, 11, 4))


def findings():
    return [text for problems in check_ledger(now_us=NOW_US).values() for text in problems]


@pytest.fixture
def ledger(db):
    made = Ledger(price="74").department("dev").project("a", of="dev", quota="0.30")
    models.DepartmentQuota.objects.create(department=made.departments["dev"], pool=made.pool)
    models.ProjectQuota.objects.create(project=made.projects["a"], pool=made.pool, quota_mgpu=300)
    first = made.hold("a", "0.60", utc(2026, 11, 1), utc(2026, 11, 2))
    made.seen(first, utc(2026, 11, 1, 2), utc(2026, 11, 1, 5), idle=True)
    made.seen(first, utc(2026, 11, 1, 5), utc(2026, 11, 1, 6), idle=False)
    made.hold("a", "0.40", utc(2026, 11, 1), None)
    return made


def test_a_sound_ledger_passes(ledger, capsys):
    assert findings() == []

    call_command("ledger", "verify")

    assert capsys.readouterr().out.endswith("The ledger is sound.\n")


def test_an_interval_left_open_is_found(ledger):
    models.AllocationInterval.objects.filter(to_us__isnull=False).update(to_us=None)

    assert any("is open, but replica" in text for text in findings())
    with pytest.raises(CommandError, match="not sound"):
        call_command("ledger", "verify")


def test_an_interval_closed_too_early_is_found(ledger):
    models.AllocationInterval.objects.filter(to_us__isnull=True).update(to_us=NOW_US)

    assert any("still holds" in text for text in findings())


def test_a_lost_interval_is_found(ledger):
    models.AllocationInterval.objects.filter(to_us__isnull=True).delete()

    assert any("has no interval" in text for text in findings())


def test_a_device_held_beyond_its_capacity_is_found(ledger):
    ledger.hold("a", "0.01", utc(2026, 11, 1, 3), utc(2026, 11, 1, 4))

    assert findings() == [
        f"device 0 of node {ledger.node.pk} held 1010 mGPU at 2026-11-01T03:00:00+00:00"
    ]


def test_activity_that_overlaps_is_found_and_so_is_the_identity_it_breaks(ledger):
    for replica in models.Replica.objects.all():
        for idle in (True, False):
            ledger.seen(replica.allocation, utc(2026, 11, 1), utc(2026, 11, 2), idle=idle)

    found = findings()

    assert any("overlaps the one before" in text for text in found)
    project = ledger.projects["a"].pk
    assert f"project {project} on 2026-11-01T00:00:00+00:00: unknown >= 0 does not hold" in found


def test_a_guarantee_that_the_ledger_does_not_know_is_found(ledger):
    models.ProjectQuota.objects.update(quota_mgpu=310)

    assert findings() == [
        f"project {ledger.projects['a'].pk} in pool {ledger.pool.pk} is guaranteed 310 mGPU, "
        "its ledger says 300"
    ]
