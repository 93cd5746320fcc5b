"""kill -9 of the worker, of the web server, of Redis, while five trainings run."""

from __future__ import annotations

import json
import os
import time

import httpx
import pytest

from tests.product import wait_until
from tests.survival.reading import assert_ledger_sound, cycle, rows, trainings

pytestmark = pytest.mark.product

TRAININGS = 5


@pytest.fixture(scope="module")
def card(make_product):
    """The first demonstration, for this module alone."""
    made = make_product("--demo", "card").start()
    wait_until(lambda: len(trainings(made)) == TRAININGS, within_s=60, what="five trainings run")
    yield made
    made.close()


@pytest.mark.parametrize("name", ["worker", "web", "redis"])
def test_work_goes_on_and_the_product_comes_back(card, name):
    # Given five trainings
    before = trainings(card)
    cycles = cycle(card)
    # When one of the product's own processes is killed outright
    victim = card.kill(name)
    wait_until(
        lambda: name in card.children() and card.children()[name] != victim,
        within_s=60,
        what=f"{name} is started again",
    )
    # Then the scheduler ticks again, the page answers, and the same five processes run, once each
    wait_until(lambda: cycle(card) > cycles + 3, within_s=60, what="ticks go on")
    wait_until(lambda: answers(card), within_s=60, what="the page answers")
    assert trainings(card) == before
    assert_ledger_sound(card)
    assert f"{name}" in card.output()


def answers(product):
    try:
        with product.signed_in() as client:
            return client.get("/").status_code == 200
    except httpx.HTTPError:
        return False


def delete_what_waits(product):
    """Delete the waiting trainings from the page, so that a free place goes to whoever lost it."""
    waiting = "SELECT id FROM scheduler_workload WHERE phase = 'pending' AND kind = 'training'"
    with product.signed_in() as client:
        for (workload_id,) in rows(product, waiting):
            answer = client.post(f"/workloads/{workload_id}/delete")
            assert answer.status_code in (200, 302), answer.text
    wait_until(lambda: not rows(product, waiting), within_s=20, what="they are gone")


def test_a_training_killed_from_outside_starts_again_from_its_checkpoint(card):
    delete_what_waits(card)
    before = trainings(card)
    replica, (pid, _) = sorted(before.items())[0]
    checkpoints = "SELECT COUNT(*) FROM scheduler_workload WHERE checkpoint_at IS NOT NULL"
    wait_until(
        lambda: rows(card, checkpoints)[0][0] >= TRAININGS, within_s=60, what="all have saved"
    )
    os.kill(pid, 9)
    wait_until(
        lambda: len(trainings(card)) == TRAININGS and replica not in trainings(card),
        within_s=60,
        what="another attempt runs",
    )
    resumed = wait_until(
        lambda: [r for (r,) in rows(card, "SELECT resumed FROM scheduler_workload") if r != "{}"],
        within_s=60,
        what="it says what it resumed from",
    )
    assert json.loads(resumed[0])["equal"] is True
    assert_ledger_sound(card)


def test_the_end_of_the_product_leaves_work_running_and_the_next_start_adopts_it(card):
    before = trainings(card)
    assert card.interrupt() == 0
    time.sleep(1)
    assert trainings(card) == before
    card.start()
    cycles = cycle(card)
    wait_until(lambda: cycle(card) > cycles + 3, within_s=60, what="ticks go on")
    assert trainings(card) == before
    assert_ledger_sound(card)
