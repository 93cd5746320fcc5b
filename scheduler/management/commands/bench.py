"""``manage.py bench NAME...``: the figures of the performance goals, each by one command."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Iterator, Mapping
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

    def run(self) -> Iterable[Row]:
        """Measure and return the rows, or yield each as soon as it is known."""


class GoalBench(Protocol):
    """The same of a module whose rows can be chosen by the number of the goal."""

    ABOUT: str

    def run(self, *, goals: Collection[int]) -> Iterable[Row]:
        """Measure and yield the rows of ``goals``, of all where none is named."""


class TraceBench(Protocol):
    """The same of a module that plays a trace, which the product doesn't carry."""

    ABOUT: str

    def run(self, *, folder: Path, seeds: int) -> Iterable[Row]:
        """Measure on the trace in ``folder`` and return the rows."""


#: Name to module. The module is imported only when its name is asked for.
BENCHES = {
    "gateway": "dashboard.management.benches.gateway",
    "map": "dashboard.management.benches.map",
    "pages": "dashboard.management.benches.pages",
    "push": "dashboard.management.benches.push",
    "report": "dashboard.management.benches.report",
    "submissions": "dashboard.management.benches.submissions",
    "tick": "scheduler.management.benches.tick",
}
#: The same of those of which some goals can be measured alone.
GOAL_BENCHES = {"core": "scheduler.management.benches.core"}
#: The same of those that need the folder of a trace, named after them.
TRACE_BENCHES = {"placement": "scheduler.management.benches.placement"}
NAMES = sorted({*BENCHES, *GOAL_BENCHES, *TRACE_BENCHES})
#: How wide the column with what was measured is.
_WIDTH = 48


class Command(BaseCommand):
    """Prints a table a name. Asserts nothing: a missed goal is shown, not an error."""

    help = f"Measure: {', '.join(NAMES)}. After placement: the folder of the openb trace."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME [DIR]")
        parser.add_argument(
            "--seeds", type=int, default=3, help="runs of each trace, each in another order"
        )
        parser.add_argument(
            "--goal",
            type=int,
            action="append",
            default=[],
            help="only this goal (core); repeatable",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = list(_asked_for(options["names"]))
        shows = not options["json"]
        found: dict[str, list[Row]] = {}
        for name, folder in wanted:
            about, rows = _measure(name, folder, options)
            if shows:
                self._say(f"\n{name}: {about}")
            found[name] = []
            for row in _each(rows):
                found[name].append(row)
                if shows:
                    self._say(_line(row))
        if shows:
            self._say(f"\n{machine()}")
        else:
            told = {name: [asdict(row) for row in rows] for name, rows in found.items()}
            self._say(json.dumps({"machine": machine(), "benches": told}, indent=2))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _line(row: Row) -> str:
    goal = f"goal {row.goal} {row.unit}" if row.goal else ""
    verdict = {True: "met", False: "MISSED", None: ""}[row.passed]
    figure = f"{row.value:>10.3f} {row.unit}"
    return f"  {row.what:<{_WIDTH}}  {figure}  {goal:<18} {verdict} {row.note}".rstrip()


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


def _measure(name: str, folder: Path, options: Mapping[str, Any]) -> tuple[str, Iterable[Row]]:
    if name in TRACE_BENCHES:
        on_trace = cast("TraceBench", import_module(TRACE_BENCHES[name]))
        return on_trace.ABOUT, on_trace.run(folder=folder, seeds=max(1, options["seeds"]))
    if name in GOAL_BENCHES:
        by_goal = cast("GoalBench", import_module(GOAL_BENCHES[name]))
        return by_goal.ABOUT, by_goal.run(goals=options["goal"])
    bench = cast("Bench", import_module(BENCHES[name]))
    return bench.ABOUT, _rows_of(bench)


def _each(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, each as soon as it is known."""
    try:
        yield from rows
    except (NotRunning, AlreadyVerifying) as error:
        raise CommandError(str(error)) from error


def _rows_of(bench: Bench) -> Iterator[Row]:
    yield from bench.run()
