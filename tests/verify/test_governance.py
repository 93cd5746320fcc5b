"""Verification 1 and the idle rules on the running product."""

from __future__ import annotations

import pytest

from tests.verify.test_verifications import answer_of, failed, without_its_rule

pytestmark = pytest.mark.product
NUMBERS = ["1", "idle", "guard"]
#: What must be among the failed checks where the rule is off.
TELL_TALE = {
    "1": "no other project and none of its work is named",
    "idle": "ran and has ended",
    "guard": "the same process all the time",
}


@pytest.fixture(scope="module")
def governed(empty_product):
    return answer_of(empty_product, *NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_check_passes(governed, number):
    code, answer = governed
    result = next(r for r in answer["verifications"] if r["number"] == number)
    assert result["trouble"] == ""
    assert failed(result) == []
    assert code == 0


def test_no_user_and_no_rule_is_left_of_it(empty_product, governed):
    with empty_product.signed_in() as client:
        assert "verify-" not in client.get("/manage/people").text
        assert "dev-test-" not in client.get("/idle").text


@pytest.mark.parametrize("number", NUMBERS)
def test_it_fails_where_its_rule_is_switched_off(empty_product, number):
    result = without_its_rule(empty_product, number)
    assert result["trouble"] == ""
    assert not result["passed"]
    assert any(TELL_TALE[number] in check["expected"] for check in failed(result))
