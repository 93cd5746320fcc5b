"""``manage.py replay FILE``: a recorded trace through the core in simulated time. Needs no database."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from scheduler.management.benches.table import machine
from scheduler.management.simulation.replay import Replayed, replay
from scheduler.management.simulation.traces import DEVICES, Trace, read_trace

POLICIES = {"binpack": (False,), "spread": (True,), "both": (False, True)}
#: Where no number of nodes is given: so much of what would let nothing wait.
_TIGHT_PERCENT = 67


class Command(BaseCommand):
    """Prints a column for each policy."""

    help = "Play a trace (openb's pods or Philly's jobs) through the core in simulated time."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the trace: .csv or .csv.gz")
        parser.add_argument("--policy", choices=sorted(POLICIES), default="both")
        parser.add_argument("--limit", type=int, default=2000, help="rows to play")
        parser.add_argument("--skip", type=int, default=0, help="rows to leave out before them")
        parser.add_argument(
            "--nodes",
            type=int,
            help=f"nodes of {DEVICES} devices; left out: two thirds of the load's peak",
        )
        parser.add_argument("--every", type=int, default=60, help="seconds between two cycles")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")

    def handle(self, *args: Any, **options: Any) -> None:
        trace = read_trace(
            options["file"], skip=max(0, options["skip"]), limit=max(1, options["limit"])
        )
        nodes = options["nodes"] or _tight(trace)
        found = [
            replay(trace, nodes=nodes, spread=spread, every_s=max(1, options["every"]))
            for spread in POLICIES[options["policy"]]
        ]
        if options["json"]:
            runs = [asdict(each) for each in found]
            self.stdout.write(json.dumps({"machine": machine(), "runs": runs}, indent=2))
            return
        self._print(found)

    def _print(self, found: list[Replayed]) -> None:
        first = found[0]
        self.stdout.write(
            f"{first.jobs:,} jobs on {first.nodes} nodes of {DEVICES} devices, in simulated time"
        )
        rows = [asdict(each) for each in found]
        for name in [key for key in rows[0] if key not in ("jobs", "nodes")]:
            cells = [row[name] for row in rows]
            shown = [
                f"{cell:>14,.1f}" if isinstance(cell, float) else f"{cell!s:>14}" for cell in cells
            ]
            self.stdout.write(f"  {name:<22}{''.join(shown)}")
        self.stdout.write(f"\n{machine()}")


def _tight(trace: Trace) -> int:
    """Return how many nodes hold most of the peak, and the largest of the work."""
    peak = trace.peak_mgpu * _TIGHT_PERCENT // (100 * DEVICES * 1000)
    return max(1, peak, *(work.workload.max_replicas for work in trace.work))
