"""A machine whose clock is put back: nothing is counted twice, nothing fails, and time catches up."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.operations import quotas, units, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.steady_clock import SteadyClock
from scheduler.queries.usage_check import check_ledger
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db(transaction=True)


class Machine:
    """A wall clock and one that counts from boot."""

    def __init__(self):
        self.wall, self.since_boot_s = START, 1000.0

    def pass_time(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.since_boot_s += seconds


def test_it_is_the_walls_time_and_at_half_its_pace_where_that_was_put_back():
    machine = Machine()
    clock = SteadyClock(
        wall=lambda: machine.wall, not_before=None, monotonic=lambda: machine.since_boot_s
    )
    machine.pass_time(10)
    assert clock() == START + timedelta(seconds=10)
    # When the wall clock is put back by a minute
    machine.wall -= timedelta(seconds=60)
    assert clock() == START + timedelta(seconds=10)
    machine.pass_time(20)
    assert clock() == START + timedelta(seconds=20)
    # Then both meet when twice that time is over, and go on together
    machine.pass_time(100)
    assert clock() == START + timedelta(seconds=70) == machine.wall
    machine.pass_time(5)
    assert clock() == machine.wall


def test_a_process_that_starts_later_goes_on_from_what_the_tables_know():
    machine = Machine()
    clock = SteadyClock(
        wall=lambda: machine.wall,
        not_before=START + timedelta(seconds=30),
        monotonic=lambda: machine.since_boot_s,
    )
    assert clock() == START + timedelta(seconds=30)


def unsound(ticker, *, after_s=0):
    now_us = to_us(ticker.clock() + timedelta(seconds=after_s))
    return {what: found for what, found in check_ledger(now_us=now_us).items() if found}


def overlaps():
    rows = models.AllocationInterval.objects.order_by("from_us", "pk")
    ends = [(row.from_us, row.to_us) for row in rows]
    return [
        (first, second)
        for first, second in itertools.pairwise(ends)
        if first[1] is None or second[0] < first[1]
    ]


def test_work_that_starts_after_a_step_back_holds_its_card_after_the_one_before(ticker):
    # Given a card that one training held until just now
    place = places.card().department("d", quota="1").project("p", of="d", quota="1")
    first = place.submit("first", of="p", gpu="1", command=["fake"])
    ticker.settle(ticks=3, seconds=10)
    place.submit("second", of="p", gpu="1", command=["fake"])
    # When the clock is put back by a hundred seconds, the first is stopped and the second starts
    ticker.engine.now -= timedelta(seconds=100)
    workloads.stop_workload(workload_id=first.pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle(ticks=4)
    assert place.phases() == {"first": "stopped", "second": "running"}
    # Then no two intervals of the card overlap, now and when the clock has caught up
    assert overlaps() == []
    assert unsound(ticker, after_s=200) == {}
    ticker.settle(ticks=15, seconds=10)
    workloads.stop_workload(
        workload_id=place.workloads["second"].pk, authority=SYSTEM, now=ticker.clock()
    )
    ticker.settle(ticks=3)
    assert overlaps() == []
    assert unsound(ticker, after_s=1) == {}


def test_what_ran_while_the_clock_lagged_is_charged(ticker):
    # Given a clock that was put back by a hundred seconds
    place = places.card().department("d", quota="1").project("p", of="d", quota="1")
    ticker.settle(ticks=2, seconds=10)
    ticker.engine.now -= timedelta(seconds=100)
    # When work runs for twenty seconds by the clock of its machine, which is behind
    short = place.submit("short", of="p", gpu="1", command=["fake", "after=20"])
    ticker.settle(ticks=30)
    assert place.phase("short") == "completed"
    # Then its interval is not empty, although its end was told as before its booking
    interval = models.AllocationInterval.objects.get(workload=short)
    assert interval.to_us > interval.from_us
    assert interval.running_us >= interval.from_us


def test_quotas_and_units_can_be_changed_after_a_step_back(ticker):
    # Given guarantees that the ledger counts since just now
    place = places.card().department("d", quota="1").department("e", quota="1")
    place.project("p", of="d", quota="1")
    ticker.settle(ticks=3, seconds=10)
    where = {"project_id": place.projects["p"].pk, "pool_id": place.pool.pk}
    quotas.set_project_quota(
        **where, values=QueueQuota(quota_mgpu=700), authority=SYSTEM, now=ticker.clock()
    )
    # When the clock is put back, and they are changed, moved and deleted then
    back = ticker.clock() - timedelta(seconds=3600)
    quotas.set_project_quota(**where, values=QueueQuota(quota_mgpu=500), authority=SYSTEM, now=back)
    project = place.projects["p"]
    units.change_project(
        project_id=project.pk,
        name="p",
        color=1,
        department_id=place.departments["e"].pk,
        authority=SYSTEM,
        now=back,
    )
    units.delete_project(project_id=project.pk, authority=SYSTEM, now=back)
    # Then each row ends when the next one begins, and none before it began
    rows = models.QuotaHistory.objects.filter(project=project).order_by("pk")
    assert [row.quota_mgpu for row in rows] == [1000, 700, 500, 500]
    assert all(row.to_us is not None and row.from_us <= row.to_us for row in rows)
    assert all(before.to_us == after.from_us for before, after in itertools.pairwise(rows))
    assert unsound(ticker) == {}
