"""``bench pages``: goal 13. What pages cost the server, by the size of the cluster and of the lists.

A database of its own is filled in a temporary folder; a process of its own asks for each page as a
signed-in administrator and counts its CPU seconds, from the request to the last byte of the answer.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from scheduler.management.benches import full_cluster
from scheduler.management.benches.table import Row

ABOUT = "pages at 64, 1,000 and 4,000 devices, lists of 100,000 (goal 13)"
SIZES = (64, 1000, 4000)
ROWS = 100_000
TRIES = 3
OVERVIEW_GOAL_MS, LIST_GOAL_MS, ADMIN_GOAL_MS, DEEP_GOAL = 150, 60, 120, 1.3
#: Each list: the address of its first page, and how that of a deep one begins.
LISTS = {
    "workloads": ("/workloads", "/workloads?after="),
    "decisions": ("/decisions", "/decisions?before="),
    "audit log": ("/manage/audit", "/manage/audit?before="),
}
#: The other orders of the table of workloads, each as its head sorts first.
SORTS = ("name", "-priority", "-submitted_at", "phase", "kind", "-request_mgpu", "-phase_since")
LISTS |= {
    f"workloads, sort={sort}": (f"/workloads?sort={sort}", f"/workloads?sort={sort}&after=")
    for sort in SORTS
}
ADMIN = "/admin/scheduler/auditentry/"


class BenchFailed(RuntimeError):
    """The process that measures ended without a figure."""


def run() -> Iterator[Row]:
    """Measure, and yield the rows.

    Raises:
        BenchFailed: with the process's last words.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        given = full_cluster.environment(folder)
        full_cluster.prepare(given)
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.management.benches.pages"],
            cwd=full_cluster.ROOT,
            env=given,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BenchFailed(done.stderr[-2000:])
    yield from _rows(json.loads(done.stdout.splitlines()[-1]))


def _rows(found: dict[str, dict[str, float]]) -> Iterator[Row]:
    for size in SIZES:
        one = found[f"overview {size}"]
        yield _goal(f"Overview, {size:,} devices", one["ms"], OVERVIEW_GOAL_MS)
        yield Row(what="its HTML", value=one["bytes"] / 1024, unit="KiB")
        yield Row(what="the same, compressed", value=one["packed"] / 1024, unit="KiB")
    for name in LISTS:
        first, deep = found[f"{name} first"]["ms"], found[f"{name} deep"]["ms"]
        yield _goal(f"{name}, {ROWS:,} rows, first page", first, LIST_GOAL_MS)
        yield _goal(f"{name}, a page in the middle", deep, LIST_GOAL_MS)
        ratio = deep / first
        yield Row(
            what="deep against first",
            value=ratio,
            unit="x",
            goal=f"<= {DEEP_GOAL}",
            passed=ratio <= DEEP_GOAL,
        )
    yield _goal(
        f"administration, list of {ROWS:,} audit entries", found["admin"]["ms"], ADMIN_GOAL_MS
    )


def _goal(what: str, value: float, goal_ms: int) -> Row:
    return Row(
        what=what,
        value=value,
        unit="CPU ms",
        goal=f"<= {goal_ms}",
        passed=value <= goal_ms,
        note=f"best of {TRIES}",
    )


def main() -> None:
    """Fill the tables, ask for each page, print the figures as JSON."""
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from django.contrib.auth import get_user_model
    from django.test import Client
    from django.test.utils import setup_test_environment
    from django.utils import timezone

    setup_test_environment()
    now = timezone.now()
    for size in SIZES:
        full_cluster.fill_pool(f"p{size}", devices=size, now=now)
    full_cluster.fill_lists(rows=ROWS, now=now)
    client = Client()
    client.force_login(get_user_model().objects.get(username="admin"))
    ids = full_cluster.middle_ids(rows=ROWS)
    middle = {**ids, "workloads": full_cluster.middle_mark("-id", rows=ROWS)}
    middle |= {
        f"workloads, sort={sort}": full_cluster.middle_mark(sort, rows=ROWS) for sort in SORTS
    }
    found = {f"overview {size}": _ask(client, f"/?pool=p{size}") for size in SIZES}
    for name, (first, deep) in LISTS.items():
        found[f"{name} first"] = _ask(client, first)
        found[f"{name} deep"] = _ask(client, f"{deep}{middle[name]}")
    found["admin"] = _ask(client, ADMIN)
    print(json.dumps(found))  # noqa: T201


def _ask(client: object, address: str) -> dict[str, float]:
    from django.test import Client

    assert isinstance(client, Client)
    best, body = float("inf"), b""
    client.get(address)
    for _ in range(TRIES):
        began = time.process_time()
        answer = client.get(address)
        body = answer.content
        best = min(best, time.process_time() - began)
        if answer.status_code != 200:
            raise BenchFailed(f"{address}: {answer.status_code}")
    return {"ms": best * 1000, "bytes": len(body), "packed": len(gzip.compress(body, 6))}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    main()
