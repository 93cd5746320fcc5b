"""A second worker and a second beat: twice the ticks, delivered twice, and nothing happens twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.product import ROOT, wait_until
from tests.survival.reading import assert_ledger_sound, rows, trainings

pytestmark = pytest.mark.product


@pytest.fixture(scope="module")
def doubled(make_product):
    """The first demonstration with another worker and another beat beside its own."""
    product = make_product("--demo", "card").start()
    celery = [sys.executable, "-m", "celery", "-A", "dashboard"]
    folder = product.data / "second"
    folder.mkdir()
    seconds = [
        subprocess.Popen(
            [*celery, *argv],
            cwd=ROOT,
            env=product.env(),
            stdin=subprocess.DEVNULL,
            stdout=(folder / f"{name}.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        for name, argv in {
            "worker": ["worker", "--concurrency", "2", "--hostname", "second@%h"],
            "beat": ["beat", "--schedule", str(folder / "beat"), "--pidfile", ""],
        }.items()
    ]
    yield product
    for process in seconds:
        process.terminate()
    for process in seconds:
        process.wait(timeout=30)
    product.close()


def test_nothing_starts_twice(doubled):
    # Given five trainings of seven at the limit, and two workers and two beats at work
    wait_until(lambda: len(trainings(doubled)) == 5, within_s=60, what="five trainings run")
    # When three workloads more come, of which two take guarantees back
    with doubled.signed_in() as client:
        for project, name in (("unit-b", "b-1"), ("unit-c", "c-1"), ("unit-c", "c-2")):
            submit(doubled, client, project=project, name=name)
    done = "SELECT COUNT(*) FROM scheduler_workload WHERE name IN ('b-1','c-1','c-2') AND phase='running'"
    wait_until(lambda: rows(doubled, done) == [(3,)], within_s=90, what="all three run")
    # Then each replica has one process, each start one booking, and the ledger no overlap
    running = rows(doubled, "SELECT id, attempt FROM scheduler_replica WHERE phase = 'running'")
    processes = trainings(doubled)
    marks = {f"{replica_id}-{attempt}" for replica_id, attempt in running}
    assert set(processes) <= marks
    assert len(processes) == 5
    doubles = rows(
        doubled,
        "SELECT workload_id, attempt, ordinal, COUNT(*) FROM scheduler_replica"
        " GROUP BY 1, 2, 3 HAVING COUNT(*) > 1",
    )
    assert doubles == []
    served = rows(
        doubled,
        "SELECT workload_id, COUNT(*) FROM scheduler_decision WHERE verb = 'reclaim' GROUP BY 1",
    )
    assert all(count == 1 for _, count in served)
    assert_ledger_sound(doubled)


def submit(product, client, *, project, name):
    """Submit a training of 0.09 from the page's form."""
    (project_id,) = rows(product, f"SELECT id FROM scheduler_project WHERE name = '{project}'")[0]
    form = {
        "name": name,
        "project": str(project_id),
        "kind": "training",
        "gpu": "0.09",
        "min_replicas": "1",
        "max_replicas": "1",
        "grace_s": "5",
        "priority": "",
        "preemptible": "",
        "command": "python {examples}/training/train_digits.py --epoch-seconds 1",
    }
    answer = client.post("/workloads/new", data=form)
    assert answer.status_code in (200, 302), answer.text
    created = rows(product, f"SELECT COUNT(*) FROM scheduler_workload WHERE name = '{name}'")
    assert created == [(1,)], answer.text
