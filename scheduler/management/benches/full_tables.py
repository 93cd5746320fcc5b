"""Goal 10's other half: one tick, database to database, over full tables. Run as a process of its own.

It makes its own SQLite file in a temporary data folder, fills it with 10,000 workloads of which 1,000
run on an engine in memory, lets ten things change, and measures the ticks that follow.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from scheduler.core.snapshot import QueueQuota

NODES, DEVICES = 125, 8
WORKLOADS = 10_000
CHANGES = 10
TRIES = 3
ROOT = Path(__file__).resolve().parents[3]


class BenchFailed(RuntimeError):
    """The process that measures ended without a figure."""


def measure() -> dict[str, float]:
    """Return the best CPU seconds and the best wall seconds of one tick, and how many run.

    Raises:
        BenchFailed: with the process's last words.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        # Nothing listens there: what the tick would tell open pages is told to nobody.
        own = {
            "TIDEGATE_DATA": folder,
            "TIDEGATE_DEBUG": "",
            "DATABASE_URL": "",
            "REDIS_URL": "redis://127.0.0.1:1/0",
        }
        done = subprocess.run(
            [sys.executable, "-m", "scheduler.management.benches.full_tables"],
            cwd=ROOT,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BenchFailed(done.stderr[-2000:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Fill the tables, change ten things three times over, print the best figures as JSON."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    logging.disable(logging.WARNING)
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)
    scene = _Scene()
    scene.fill()
    tries = [scene.measure_once() for _ in range(TRIES)]
    cpu_s, wall_s = (min(column) for column in zip(*tries, strict=True))
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "running": scene.count_running()}))  # noqa: T201


class _Scene:
    """A pool of 1,000 devices and the work of 200 projects."""

    def __init__(self) -> None:
        from scheduler.engines.fake import FakeEngine
        from scheduler.tick import engine_room

        self.engine = FakeEngine(now=datetime.now(tz=UTC))
        # The engine's own seam: this process makes one engine, and the tick is to find it.
        vars(engine_room)["make_engine"] = lambda name, *, data_dir: self.engine
        self.pool_id = 0
        self.project_ids: list[int] = []
        self.number = 0

    def fill(self) -> None:
        """Make everything, hand in the work, and tick until nothing more starts."""
        from django.db import transaction

        from scheduler.operations import nodes
        from scheduler.operations.authority import SYSTEM

        with transaction.atomic():
            self.pool_id = nodes.create_pool(name="bench", authority=SYSTEM, now=self.engine.now).pk
            device = nodes.DeviceFacts(model="H", memory_mib=81_920, virtual=True)
            for number in range(NODES):
                facts = nodes.NodeFacts(
                    name=f"node-{number:03d}", devices=[device] * DEVICES, engine="fake"
                )
                nodes.register_node(
                    pool_id=self.pool_id, facts=facts, authority=SYSTEM, now=self.engine.now
                )
            self._make_units()
            for _ in range(WORKLOADS):
                self._submit()
        for _ in range(3):
            self._tick()

    def measure_once(self) -> tuple[float, float]:
        """Let five end and five come; return CPU and wall seconds of the pass that meets them."""
        from django.db import transaction

        with transaction.atomic():
            for _ in range(CHANGES // 2):
                self._submit()
        self._end_some(CHANGES // 2)
        began_cpu, began = time.process_time(), time.perf_counter()
        self._pass()
        figures = time.process_time() - began_cpu, time.perf_counter() - began
        self._tick()
        return figures

    def count_running(self) -> int:
        """Return how many replicas live."""
        return sum(seen.phase.value == "running" for seen in self.engine.observe())

    def _make_units(self) -> None:
        from scheduler.operations import quotas, units
        from scheduler.operations.authority import SYSTEM

        total_mgpu, now = NODES * DEVICES * 1000, self.engine.now
        for number in range(20):
            department = units.create_department(name=f"d-{number}", authority=SYSTEM, now=now)
            quotas.set_department_quota(
                department_id=department.pk,
                pool_id=self.pool_id,
                values=QueueQuota(quota_mgpu=total_mgpu // 20),
                authority=SYSTEM,
                now=now,
            )
            for part in range(10):
                project = units.create_project(
                    department_id=department.pk,
                    name=f"p-{number}-{part}",
                    authority=SYSTEM,
                    now=now,
                )
                quotas.set_project_quota(
                    project_id=project.pk,
                    pool_id=self.pool_id,
                    values=QueueQuota(quota_mgpu=total_mgpu // 200),
                    authority=SYSTEM,
                    now=now,
                )
                self.project_ids.append(project.pk)

    def _submit(self) -> None:
        from scheduler.core.vocabulary import Kind
        from scheduler.operations import submissions, workloads
        from scheduler.operations.authority import SYSTEM

        self.number += 1
        workloads.submit_workload(
            project_id=self.project_ids[self.number % len(self.project_ids)],
            pool_id=self.pool_id,
            submission=submissions.Submission(
                name=f"w-{self.number}", kind=Kind.TRAINING, command=["fake"], request_mgpu=1000
            ),
            authority=SYSTEM,
            now=self.engine.now,
        )

    def _end_some(self, count: int) -> None:
        """Let the first replicas be killed from outside, so that their devices come free."""
        live = [seen.key for seen in self.engine.observe() if seen.phase.value == "running"]
        for key in live[:count]:
            self.engine.kill(key)

    def _tick(self) -> None:
        from scheduler.tick import run

        self.engine.advance(1)
        run.run_tick(owner="bench", clock=lambda: self.engine.now)

    def _pass(self) -> None:
        from scheduler.tick import run

        self.engine.advance(1)
        run.run_pass(tally=run.Tally(), clock=lambda: self.engine.now)


if __name__ == "__main__":
    main()
