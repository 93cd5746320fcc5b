"""The verifications of serving on the running product: side by side, replicas, the tide."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.product
NUMBERS = ["2", "7", "tide"]


@pytest.fixture(scope="module")
def verified(empty_product):
    done = empty_product.manage("verify", *NUMBERS, "--json", within_s=500)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["verifications"]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_check_passes(verified, number):
    result = next(r for r in verified if r["number"] == number)
    assert result["trouble"] == ""
    assert [check for check in result["checks"] if not check["passed"]] == []
    assert result["passed"]
