"""What `manage.py test` runs one after the other, by what the caller chose."""

from __future__ import annotations

import pytest

from dashboard.launch.testing import CLUSTER, PRODUCT, _stages

POSTGRES = "postgresql://somewhere/tests"


def test_everything_runs_side_by_side_then_products_two_at_a_time_then_on_postgresql():
    beside, products, cluster, again = _stages(["--durations=5"], POSTGRES)
    assert "--numprocesses" in beside.arguments
    assert f"not ({PRODUCT} or {CLUSTER})" in beside.arguments
    assert products.arguments == ("--numprocesses", "2", "--dist", "loadfile", "-m", PRODUCT)
    assert cluster.arguments == ("-m", CLUSTER)
    assert again.environment["DATABASE_URL"] == POSTGRES
    assert "--numprocesses" in again.arguments


@pytest.mark.parametrize(
    "argv", [["tests/launch"], ["-k", "port"], ["-m", "gpu"], ["-n", "4"], ["-x", "tests/api"]]
)
def test_a_choice_is_run_as_it_is_given(argv):
    first, again = _stages(argv, POSTGRES)
    assert first.arguments == again.arguments == ()


def test_without_postgresql_there_is_no_second_database():
    assert [stage.environment for stage in _stages([], "")] == [{}, {}, {}]
    assert len(_stages(["tests/launch"], "")) == 1


def test_at_full_count_products_run_on_postgresql_alone_too():
    assert _stages(["--full"], POSTGRES)[-1].arguments == ()
