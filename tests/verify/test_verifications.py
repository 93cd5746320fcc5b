"""The article's verifications on the running product; and each fails where its rule is off."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.product import ROOT
from tests.verify.switched_off import EDITS

pytestmark = pytest.mark.product

NUMBERS = ["3", "4", "5", "6", "8"]

#: What must be among the failed checks where the rule is off.
TELL_TALE = {
    "3": "free",  # 0.13 stays free
    "4": "same processes",  # the trainings go on
    "5": "is given back",  # exactly one borrowed place
    "6": "received SIGTERM",  # the training is preempted
    "8": "unit-a, exact",  # what it borrowed
}


def answer_of(product, *argv):
    """Run the command with --json; return its answer."""
    done = product.manage("verify", *argv, "--json", within_s=400)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def without_its_rule(product, number):
    """Run one verification with its rule switched off; return its result."""
    assert number in EDITS
    done = subprocess.run(
        [sys.executable, "-m", "tests.verify.switched_off", number],
        cwd=ROOT,
        env=product.env(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def failed(result):
    return [check for check in result["checks"] if not check["passed"]]


@pytest.fixture(scope="module")
def verified(empty_product):
    """All of them on one card, once."""
    return answer_of(empty_product, *NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_check_passes_on_one_card(verified, number):
    _code, answer = verified
    result = next(r for r in answer["verifications"] if r["number"] == number)
    assert result["trouble"] == ""
    assert failed(result) == []
    assert result["passed"]


def test_the_exit_code_is_0_and_each_check_says_all_that_it_must(verified):
    code, answer = verified
    assert (code, answer["passed"]) == (0, True)
    checks = [check for result in answer["verifications"] for check in result["checks"]]
    fields = ("given", "expected", "seen", "where")
    assert all(check[field] for check in checks for field in fields)


def test_most_is_read_outside_the_schedulers_tables(verified):
    _code, answer = verified
    places = [check["where"] for result in answer["verifications"] for check in result["checks"]]
    known = (
        "process table",
        "page /",
        "JSON /",
        "CSV /",
        "HTTP to the process",
        "its log",
        "their logs",
        "the ",
    )
    assert all(place.startswith(known) for place in places)


def test_nothing_is_left_of_it(empty_product, verified):
    # Given that verify has run, when the administrator looks, then all is as it was before
    with empty_product.signed_in() as client:
        assert "verify-" not in client.get("/workloads").text
        assert "dev-test-" not in client.get("/quotas").text
    storage = empty_product.data / "workloads" / "engine" / "storage"
    assert list(storage.iterdir()) == []


@pytest.mark.parametrize("number", NUMBERS)
def test_the_check_fails_where_its_rule_is_switched_off(empty_product, number):
    result = without_its_rule(empty_product, number)
    # Then it was carried out, it failed, and what failed is what the rule is about
    assert result["trouble"] == ""
    assert not result["passed"]
    assert any(TELL_TALE[number] in check["expected"] for check in failed(result))


@pytest.mark.full
def test_every_check_passes_on_eight_devices(empty_product):
    code, answer = answer_of(empty_product, *NUMBERS, "--on", "server")
    assert [failed(result) for result in answer["verifications"]] == [[]] * len(NUMBERS)
    assert (code, answer["passed"]) == (0, True)


def test_without_the_product_it_says_how_to_start_it(make_product):
    product = make_product("--empty")
    done = product.manage("verify", "3")
    assert done.returncode != 0
    assert "python3 manage.py up" in done.stderr


def test_an_unknown_number_is_refused_with_those_that_there_are(make_product):
    done = make_product("--empty").manage("verify", "99")
    assert done.returncode != 0
    told = done.stderr.partition("there are ")[2].strip(" .\n").split(", ")
    assert set(NUMBERS) <= set(told)
