"""``bench report``: goal 11. A year of 1,000,000 intervals of 200 projects, on SQLite and PostgreSQL.

The year is made up in a database of its own, rolled up, and reported on by processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dashboard.launch.postgres import PostgresAway, temporary_postgres
from scheduler.management.benches.table import Row

ABOUT = "a year, 1,000,000 intervals, 200 projects (goal 11)"
GOAL_S = 0.3
GOAL_MIB = 200
WORKER = "dashboard.management.benches.report_worker"
ROOT = Path(__file__).resolve().parents[3]

REPORTS = {
    "year_by_month": "a year by project and month",
    "month_by_day": "all projects by day for a month",
    "month_by_day_utc": "the same in UTC",
}


class BenchFailed(RuntimeError):
    """A process that measures ended without a figure."""


def run() -> list[Row]:
    """Measure on SQLite, and on PostgreSQL where a server can be started.

    Raises:
        BenchFailed: a process failed, with its last words.
    """
    rows: list[Row] = []
    with _sqlite() as environment:
        rows += _measure("SQLite", environment)
    try:
        with _postgres() as environment:
            rows += _measure("PostgreSQL", environment)
    except PostgresAway as away:
        rows.append(Row(what="PostgreSQL is not measured", value=0, note=str(away)))
    return rows


@contextmanager
def _sqlite() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        yield {"TIDEGATE_DATA": folder, "DATABASE_URL": ""}


@contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-"))
        url = stack.enter_context(temporary_postgres())
        yield {"TIDEGATE_DATA": folder, "DATABASE_URL": url}


def _measure(name: str, environment: dict[str, str]) -> list[Row]:
    made = _ask("fill", environment)
    rolled = _ask("roll_up", environment)
    found = _ask("report", environment)
    exported = _ask("csv", environment)
    rows = [_row(f"{name}: {what}", found, key) for key, what in REPORTS.items()]
    mib = exported["peak_mib"]
    return [
        *rows,
        Row(
            what=f"{name}: {exported['lines']:,.0f} intervals as CSV, peak memory",
            value=mib,
            unit="MiB",
            goal=f"<= {GOAL_MIB}",
            passed=mib <= GOAL_MIB,
            note=f"{exported['seconds']:.1f} s, {exported['mib']:.0f} MiB written",
        ),
        Row(
            what=f"{name}: rolling the whole year up from its intervals",
            value=rolled["seconds"],
            note=f"{rolled['hours']:,.0f} hours, {made['intervals']:,.0f} intervals, "
            f"{made['activity']:,.0f} of activity",
        ),
    ]


def _row(what: str, found: dict[str, float], key: str) -> Row:
    value = found[f"{key}_cpu"]
    return Row(
        what=what,
        value=value,
        # Of the process that makes the report, and of the server's that works for it.
        unit="CPU s",
        goal=f"<= {GOAL_S:.2f}",
        passed=value <= GOAL_S,
        note=f"{found[f'{key}_rows']:,.0f} rows, best of three, {found[key]:.3f} s by the clock",
    )


def _ask(act: str, environment: dict[str, str]) -> dict[str, float]:
    # Nothing listens there: a benchmark tells no page anything.
    own = {**environment, "REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "-m", WORKER, act],
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"{act}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
