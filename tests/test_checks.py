"""The checks of style, types, layers and migrations, as tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CHECKS = {
    "style": [str(BIN / "ruff"), "check", "."],
    "format": [str(BIN / "ruff"), "format", "--check", "."],
    "types": [str(BIN / "mypy"), "."],
    "layers": [str(BIN / "lint-imports")],
}


def run(argv, **variables):
    environment = {**os.environ, "XDG_RUNTIME_DIR": "/tmp", **variables}
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", CHECKS)
def test_check(name):
    done = run(CHECKS[name])

    assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("seed", ["0", "1"])
def test_models_and_migrations_agree_whatever_the_hash_seed(seed):
    argv = [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"]

    done = run(argv, PYTHONHASHSEED=seed, DATABASE_URL="")

    assert done.returncode == 0, done.stdout + done.stderr


#: As in ``psycopg[binary]``.
EXTRAS = re.compile(r"\[[a-z0-9,]+\]")


def test_locks_hold_every_pinned_requirement_and_no_address():
    for lock in ROOT.glob("requirements*.lock"):
        locked = EXTRAS.sub("", lock.read_text())
        wanted = lock.with_suffix(".txt").read_text().splitlines()
        pins = [line.split("#")[0].strip() for line in wanted if "==" in line.split("#")[0]]
        for pin in pins:
            assert f"{EXTRAS.sub('', pin)} " in locked, pin
        assert "://" not in locked, f"{lock.name} names a place that not everyone can reach"
