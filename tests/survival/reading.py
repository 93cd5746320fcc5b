"""What these tests read: the process table and the tables, from outside the product."""

from __future__ import annotations

import sqlite3

import psutil


def trainings(product):
    """Return (pid, start time) of each process that trains, by the mark of its replica."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if not any(part.endswith("train_digits.py") for part in command):
            continue
        try:
            environment = process.environ()
            started = process.create_time()
        except psutil.Error:
            continue
        own = environment.get("CHECKPOINT_DIR", "").startswith(str(product.data))
        if own and "TIDEGATE_REPLICA" in environment:
            found[environment["TIDEGATE_REPLICA"]] = (process.pid, started)
    return found


def rows(product, query):
    connection = sqlite3.connect(f"file:{product.data / 'tidegate.sqlite3'}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def cycle(product):
    return rows(product, "SELECT cycle FROM scheduler_cluster")[0][0]


def assert_ledger_sound(product):
    """Each running replica has one open interval, and each ended one a closed one: no gap, no double."""
    alive = rows(product, "SELECT id FROM scheduler_replica WHERE phase != 'ended' ORDER BY id")
    opened = rows(
        product,
        "SELECT replica_id FROM scheduler_allocationinterval WHERE to_us IS NULL ORDER BY 1",
    )
    assert alive == opened
    begins = rows(
        product,
        "SELECT COUNT(*) FROM scheduler_allocationinterval a, scheduler_allocationinterval b"
        " WHERE a.workload_id = b.workload_id AND a.id < b.id"
        " AND b.from_us < COALESCE(a.to_us, 9e18)",
    )
    assert begins == [(0,)]
