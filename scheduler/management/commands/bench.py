"""``manage.py bench NAME...``: the figures of the performance goals, each by one command."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
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


class TraceBench(Protocol):
    """The same of a module that plays a trace, which the product doesn't carry."""

    ABOUT: str

    def run(self, *, folder: Path, seeds: int) -> list[Row]:
        """Measure on the trace in ``folder`` and return the rows."""


#: Name to module. The module is imported only when its name is asked for.
BENCHES = {
    "core": "scheduler.management.benches.core",
    "gateway": "dashboard.management.benches.gateway",
    "report": "dashboard.management.benches.report",
    "tick": "scheduler.management.benches.tick",
}
#: The same of those that need the folder of a trace, named after them.
TRACE_BENCHES = {"placement": "scheduler.management.benches.placement"}
NAMES = sorted({*BENCHES, *TRACE_BENCHES})


class Command(BaseCommand):
    """Prints a table a name. Asserts nothing: a missed goal is shown, not an error."""

    help = f"Measure: {', '.join(NAMES)}. After placement: the folder of the openb trace."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME [DIR]")
        parser.add_argument(
            "--seeds", type=int, default=3, help="runs of each trace, each in another order"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = list(_asked_for(options["names"]))
        found = {}
        for name, folder in wanted:
            about, found[name] = _measure(name, folder, max(1, options["seeds"]))
            if not options["json"]:
                self._print(f"{name}: {about}", found[name])
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


def _asked_for(words: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield each name, with the folder that follows it where it needs one."""
    left = iter(words)
    for name in left:
        if name not in NAMES:
            raise CommandError(f"no benchmark is called {name}; there are {', '.join(NAMES)}")
        folder = Path(next(left, "")) if name in TRACE_BENCHES else Path()
        if name in TRACE_BENCHES and (folder == Path() or not folder.is_dir()):
            raise CommandError(f"{name}: name the folder of the openb trace: bench {name} DIR")
        yield name, folder


def _measure(name: str, folder: Path, seeds: int) -> tuple[str, list[Row]]:
    if name in TRACE_BENCHES:
        on_trace = cast("TraceBench", import_module(TRACE_BENCHES[name]))
        return on_trace.ABOUT, on_trace.run(folder=folder, seeds=seeds)
    bench = cast("Bench", import_module(BENCHES[name]))
    try:
        return bench.ABOUT, bench.run()
    except (NotRunning, AlreadyVerifying) as error:
        raise CommandError(str(error)) from error
