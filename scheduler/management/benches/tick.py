"""``bench tick``: from a submission to running work, and what one tick costs over full tables.

The first is measured on an idle scratch card of the running product. Each round hands in a command
that only sleeps, and looks until the product says that it runs and its process is there. The pauses
between the rounds differ, so that they meet the tick at all its phases.
"""

from __future__ import annotations

import statistics
import time

from django.core.management.base import CommandError

from scheduler.core.vocabulary import Kind, Phase
from scheduler.management.benches import full_tables
from scheduler.management.benches.table import Row
from scheduler.management.verify.layout import CARD
from scheduler.management.verify.readers import settle
from scheduler.management.verify.registry import alone
from scheduler.management.verify.scene import Scene, open_scene
from scheduler.management.verify.stage import find_address
from scheduler.operations.demonstration_data import Unit
from scheduler.queries import workloads
from scheduler.queries.visibility import SYSTEM

ABOUT = "from a submission to running work; one tick, database to database (goal 10)"
ROUNDS = 20
GOAL_S = 1.0
FULL_GOAL_S = 0.3
LIMIT_S = 30.0
LOOK_EVERY_S = 0.005

_UNITS = (
    Unit(name="bench", quota_mgpu=1000),
    Unit(name="bench-project", department="bench", quota_mgpu=1000),
)


class NeverRan(CommandError):
    """A round's work did not come to run in time."""


def run() -> list[Row]:
    """Measure submit to running on an idle scratch card of the product that runs here.

    Raises:
        NotRunning: there is no product with this data folder.
        NeverRan: some round's work never came to run.
    """
    find_address()
    with alone(), open_scene(layout=CARD, units=_UNITS) as scene:
        seconds = [_one_round(scene, number) for number in range(ROUNDS)]
    median_s = statistics.median(seconds)
    return [
        Row(
            what=f"submit to running on an idle card, median of {ROUNDS}",
            value=median_s,
            goal=f"<= {GOAL_S:.2f}",
            passed=median_s <= GOAL_S,
        ),
        Row(what="the fastest of them", value=min(seconds)),
        Row(what="the slowest of them", value=max(seconds)),
        *_full_tables(),
    ]


def _full_tables() -> list[Row]:
    found = full_tables.measure()
    what = (
        f"a tick, database to database: {full_tables.WORKLOADS:,} workloads, "
        f"{found['running']:,.0f} running, {full_tables.CHANGES} changes"
    )
    return [
        Row(
            what=what,
            value=found["cpu_s"],
            unit="CPU s",
            goal=f"<= {FULL_GOAL_S:.2f}",
            passed=found["cpu_s"] <= FULL_GOAL_S,
            note=f"best of {full_tables.TRIES}",
        ),
        Row(what="the same by the clock", value=found["wall_s"]),
    ]


def _one_round(scene: Scene, number: int) -> float:
    """Return the seconds from the submission until the product says that it runs."""
    time.sleep(0.2 + number * 0.37 % 1.0)
    name = f"work-{number}"
    began = time.monotonic()
    workload_id = scene.submit(
        name,
        project="bench-project",
        kind=Kind.TRAINING,
        mgpu=1000,
        command=("sleep", "600"),
        max_attempts=1,
    )
    while _phase(workload_id) is not Phase.RUNNING:
        if time.monotonic() - began > LIMIT_S:
            raise NeverRan(f"{name} did not run within {LIMIT_S:.0f} s")
        time.sleep(LOOK_EVERY_S)
    running_s = time.monotonic() - began
    if scene.processes().of(name) is None:
        raise NeverRan(f"{name} is said to run, and no process of it is there")
    scene.delete(name)
    settle(scene.processes, until=lambda found: found.of(name) is None, within_s=LIMIT_S)
    settle(lambda: _phase(workload_id), until=lambda phase: phase is None, within_s=LIMIT_S)
    return running_s


def _phase(workload_id: int) -> Phase | None:
    detail = workloads.read_workload(visible=SYSTEM, workload_id=workload_id)
    return None if detail is None else Phase(detail.row.phase)
