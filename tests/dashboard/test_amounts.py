"""Amounts and ages on pages: one table for the server and the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dashboard.templatetags import gpu as filters

TABLE = json.loads(Path(__file__).with_name("amounts.json").read_text(encoding="utf-8"))
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("what", "mgpu", "text"), TABLE, ids=[row[0] for row in TABLE])
def test_an_amount_reads_as_in_the_table(what, mgpu, text):
    assert filters.gpu(mgpu) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (2460, "41 min"),
        (11520, "3 h 12 min"),
        (777600, "9 d"),
    ],
)
def test_a_duration_reads_in_its_largest_unit(seconds, text):
    assert filters.duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(93, 100, "93%"), (5, 1000, "0.5%"), (0, 7, "0%"), (3, 0, "–")]
)
def test_percent_has_a_decimal_only_under_one(part, whole, text):
    assert filters.percent(part, whole) == text


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node to run the pages' modules")
def test_the_pages_modules_agree():
    """Given the same table, when Node runs the modules' own tests, then all pass."""
    files = sorted(str(path) for path in (ROOT / "tests" / "js").glob("*.test.mjs"))
    done = subprocess.run(
        ["node", "--test", *files], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
