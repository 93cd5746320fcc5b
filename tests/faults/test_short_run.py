"""A fault run of a minute, for real."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.product import ROOT

pytestmark = [pytest.mark.product, pytest.mark.full, pytest.mark.xdist_group("product")]


@pytest.mark.timeout(1200)
def test_a_minute_of_faults_leaves_nothing_wrong():
    more = ["--postgres"] if os.environ.get("TIDEGATE_TEST_DATABASE") == "postgres" else []
    done = subprocess.run(
        [sys.executable, "manage.py", "faults", "--minutes", "1", "--seed", "20261201", *more],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout
