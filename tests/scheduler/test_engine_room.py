"""The folder of running work belongs to one database."""

from __future__ import annotations

from pathlib import Path

import psutil

from scheduler.engines.base import LaunchSpec, ReplicaKey
from scheduler.engines.claims import claim
from scheduler.engines.local import LocalEngine
from tests.product import wait_until


def sleeper(key):
    return LaunchSpec(
        key=key,
        workload_id=1,
        project_name="p",
        workload_name="w",
        command=("sleep", "600"),
        storage_key="workload-1",
    )


def test_work_of_a_thrown_away_database_ends_and_its_ids_are_free_again(tmp_path: Path):
    # Given work that a database, now thrown away, had started
    key = ReplicaKey(replica_id=1, attempt=1)
    claim(folder=tmp_path, owner="first")
    engine = LocalEngine(data_dir=tmp_path)
    engine.launch(sleeper(key))
    pid = wait_until(lambda: engine.observe()[0].pid, within_s=20, what="it runs")
    # When another database takes the folder
    claim(folder=tmp_path, owner="second")
    # Then the old process ends, and the same id starts anew
    wait_until(lambda: not psutil.pid_exists(pid), within_s=30, what="the old process ends")
    again = LocalEngine(data_dir=tmp_path)
    assert again.observe() == ()
    again.launch(sleeper(key))
    wait_until(lambda: again.observe()[0].pid, within_s=20, what="the new one runs")
    again.terminate(key, grace_s=1, reason="test")
    wait_until(lambda: again.observe()[0].ended_at, within_s=20, what="it ends")


def test_the_same_database_keeps_its_work(tmp_path: Path):
    claim(folder=tmp_path, owner="first")
    (tmp_path / "engine").mkdir()
    claim(folder=tmp_path, owner="first")
    assert (tmp_path / "engine").exists()
