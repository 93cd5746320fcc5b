"""A worker that dies at any statement of a cycle, hundreds of times, costs no second of the ledger."""

from __future__ import annotations

import random
from itertools import count

import pytest
from django.db import connection

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.usage import sum_figures
from scheduler.operations import usage_rollup, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.queries import usage
from scheduler.queries.usage_check import check_ledger
from scheduler.queries.visibility import SYSTEM as ALL
from scheduler.tick import books
from tests.scheduler import places
from tests.scheduler.test_tick import Killed, services

pytestmark = pytest.mark.django_db(transaction=True)

LOOKED_AT_EACH = 40


class Death:
    """Lets so many statements of a tick pass; from then on nothing reaches the database."""

    def __init__(self, after):
        self.left = after
        self.dead = False

    def __call__(self, execute, sql, params, many, context):
        self.dead = self.dead or self.left == 0
        if self.dead:
            raise Killed
        self.left -= 1
        return execute(sql, params, many, context)


def die_in_a_tick(ticker, *, after, seconds):
    """Run a tick that dies after so many statements; False where it ended before."""
    death = Death(after)
    with connection.execute_wrapper(death):
        try:
            ticker.tick(seconds=seconds)
        except Killed:
            ticker.engine.advance(0.5)
    return death.dead


class Churn:
    """People who hand work in and take it away, so that each cycle has something to do."""

    def __init__(self, place, ticker, seed):
        self.place, self.ticker, self.rng = place, ticker, random.Random(seed)
        self.numbers = count(1)
        self.alive = []

    def go_on(self):
        if len(self.alive) > 8 or (self.alive and self.rng.random() < 0.35):
            name = self.alive.pop(self.rng.randrange(len(self.alive)))
            workloads.delete_workload(
                workload_id=self.place.workloads.pop(name).pk,
                authority=SYSTEM,
                now=self.ticker.clock(),
            )
            return
        name = f"w-{next(self.numbers)}"
        of = self.rng.choice(["unit-a", "unit-a", "unit-b", "unit-c"])
        command = self.rng.choice(
            [
                ["fake"],
                ["fake", "after=40"],
                ["fake", "exit=3", "after=15"],
                ["fake", "ignores-term"],
            ]
        )
        self.place.submit(
            name, of=of, gpu="0.09", command=command, grace_s=5, at=self.ticker.clock()
        )
        if "after=40" not in command and "exit=3" not in command:
            self.alive.append(name)


def assert_sound(ticker):
    now_us = to_us(ticker.clock())
    found = check_ledger(now_us=now_us)
    assert [text for problems in found.values() for text in problems] == []
    assert books.find_differences() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_hundreds_of_deaths_lose_and_double_nothing(ticker, request, seed):
    # Given the article's card, with people who hand in and take away all the time
    place = places.article()
    services(place)
    ticker.settle()
    churn = Churn(place, ticker, seed)
    deaths, after = 0, 0
    wanted = 1000 if request.config.getoption("--full") else 110
    # When ticks die one statement later each time, from the first to the last and over again
    while deaths < wanted:
        churn.go_on()
        died = die_in_a_tick(ticker, after=after, seconds=20)
        deaths += died
        after = after + 1 if died else 0
        # And the next worker finds what the dead one left
        ticker.tick(seconds=20)
        if deaths % LOOKED_AT_EACH == 0:
            assert_sound(ticker)
            usage_rollup.roll_up(now=ticker.clock())
    ticker.settle(ticks=4, seconds=20)
    # Then the ledger is sound, rolled-up hours are what the intervals say
    assert_sound(ticker)
    assert list(usage_rollup.differences(now_us=to_us(ticker.clock()))) == []
    # And what it says is held is what runs, at this instant and not twice
    live = [o for o in ticker.engine.observe() if o.phase.value in ("starting", "running")]
    open_ = models.AllocationInterval.objects.filter(to_us__isnull=True)
    assert open_.count() == len(live)
    begin = to_us(ticker.clock())
    second = usage.read_raw_usage(
        visible=ALL, cuts=[begin, begin + 1_000_000], now_us=begin + 1_000_000
    )
    total = sum_figures(rows=[rows[0] for rows in second.queues.values()])
    held_mgpu = sum(models.Device.objects.values_list("allocated_mgpu", flat=True))
    assert total.allocated == held_mgpu * 1_000_000
