"""``manage.py bench NAME...``: the figures of the performance goals, each by one command."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from importlib import import_module
from typing import Any, Protocol, cast

from django.core.management.base import BaseCommand, CommandError

from scheduler.management.benches.table import Row, machine
from scheduler.management.verify.registry import AlreadyVerifying
from scheduler.management.verify.stage import NotRunning


class Bench(Protocol):
    """What a module of ``scheduler.management.benches`` that measures something holds."""

    ABOUT: str

    def run(self) -> list[Row]:
        """Measure and return the rows."""


#: Name to module. The module is imported only when its name is asked for.
BENCHES = {
    "core": "scheduler.management.benches.core",
    "gateway": "dashboard.management.benches.gateway",
    "report": "dashboard.management.benches.report",
    "tick": "scheduler.management.benches.tick",
}


class Command(BaseCommand):
    """Prints a table a name. Asserts nothing: a missed goal is shown, not an error."""

    help = f"Measure: {', '.join(sorted(BENCHES))}."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME", choices=sorted(BENCHES))
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")

    def handle(self, *args: Any, **options: Any) -> None:
        found = {}
        for name in options["names"]:
            bench = cast("Bench", import_module(BENCHES[name]))
            try:
                found[name] = bench.run()
            except (NotRunning, AlreadyVerifying) as error:
                raise CommandError(str(error)) from error
            if not options["json"]:
                self._print(f"{name}: {bench.ABOUT}", found[name])
        if options["json"]:
            rows = {name: [asdict(row) for row in rows] for name, rows in found.items()}
            self.stdout.write(json.dumps({"machine": machine(), "benches": rows}, indent=2))
        else:
            self.stdout.write(f"\n{machine()}")

    def _print(self, title: str, rows: list[Row]) -> None:
        self.stdout.write(f"\n{title}")
        width = max(len(row.what) for row in rows)
        for row in rows:
            goal = f"goal {row.goal} {row.unit}" if row.goal else ""
            verdict = {True: "met", False: "MISSED", None: ""}[row.passed]
            figure = f"{row.value:>10.3f} {row.unit}"
            line = f"  {row.what:<{width}}  {figure}  {goal:<18} {verdict} {row.note}"
            self.stdout.write(line.rstrip())
