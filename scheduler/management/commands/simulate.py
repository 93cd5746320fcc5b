"""``manage.py simulate day``: a day of one pool, lent or in fixed halves, decided by the core."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.management.simulation.day import DEVICES, NODES, Day, simulate_day
from scheduler.management.simulation.picture import write_picture

_FIGURES = (
    "inference_gpu_hours",
    "training_gpu_hours",
    "idle_gpu_hours",
    "missing_gpu_hours",
    "trainings_done",
    "interruptions",
)


class Command(BaseCommand):
    """Prints both days side by side, and draws them where ``--out`` is given."""

    help = "Simulate a day: inference follows office hours, training fills the rest."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["day"])
        parser.add_argument(
            "--out", type=Path, help="write a Plotly figure: FILE.html or FILE.json"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")

    def handle(self, *args: Any, **options: Any) -> None:
        days = [
            simulate_day(name="lent while idle", shared=True),
            simulate_day(name="fixed halves", shared=False),
        ]
        out: Path | None = options["out"]
        if out is not None:
            self._draw(days, out)
        if options["json"]:
            found = {day.name: {name: getattr(day, name) for name in _FIGURES} for day in days}
            self.stdout.write(json.dumps(found, indent=2))
            return
        self._print(days)

    def _print(self, days: list[Day]) -> None:
        self.stdout.write(f"a day of {NODES} nodes of {DEVICES} devices, in simulated time")
        self.stdout.write(f"  {'':<22}{''.join(f'{day.name:>18}' for day in days)}")
        for name in _FIGURES:
            cells = "".join(f"{getattr(day, name):>18,.1f}" for day in days)
            self.stdout.write(f"  {name:<22}{cells}")

    def _draw(self, days: list[Day], out: Path) -> None:
        if out.suffix not in (".html", ".json"):
            raise CommandError(f"{out}: call it FILE.html or FILE.json")
        try:
            write_picture(days, out=out)
        except OSError as error:
            raise CommandError(f"{out} can't be written: {error}") from error
