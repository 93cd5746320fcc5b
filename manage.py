#!/usr/bin/env python3
"""Tidegate's command line: makes .venv where it is missing, starts itself again with it, and runs.

Until then only the standard library is there to import.
"""

from __future__ import annotations

import os
import sys

LEAST_PYTHON = (3, 11)
SETS = {
    "up": ("base", "demo", "model"),
    "test": ("base", "demo", "model", "test", "lint", "docs", "ray", "otel", "kubernetes"),
    "screenshots": ("base", "demo", "model", "test"),
    "docs": ("base", "docs"),
    "faults": ("base", "demo", "test"),
    "join": ("base", "demo", "ray"),
}
#: Sets that are needed where a variable is set.
BY_VARIABLE = {
    "ray": "TIDEGATE_RAY_ADDRESS",
    "otel": "OTEL_EXPORTER_OTLP_ENDPOINT",
    "kubernetes": "TIDEGATE_KUBERNETES_IMAGE",
}
HELP = """usage: python3 manage.py COMMAND [...]

  up            set up and start the whole product; Ctrl-C ends it
  join          make this machine a node that runs work for a Tidegate elsewhere
  end_work      stop all workloads, also while the product does not run
  verify        repeat the experiments with real processes on the running product
  decide        decide scheduling cases from files; needs no database
  demo          a day in ten minutes: real requests by office hours, trainings fill the rest
  report        consumption: who held, borrowed and left idle how much
  backup        everything in one file, also while it runs; restore puts it back
  ledger        check the usage ledger, or roll its hours up
  faults        break a product of its own at random under load, and look what it did
  bench         take figures and print them beside their goals
  replay        play a recorded trace through the scheduler in simulated time
  simulate      a day of one pool, lent or in fixed halves, in simulated time
  screenshots   pictures of every page, of a product of its own
  docs          build the documentation as pages, in two languages
  test          set up all that tests need and run them
  lock          make the lock files anew from the requirements files
  changepassword admin    set the first user's password anew

COMMAND -h tells more of most. Django's own commands: python3 manage.py help --commands"""


def main() -> int:
    command, rest = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command in ("", "help", "-h", "--help") and not rest:
        print(HELP)
        return 0
    _use_new_enough_python()
    from dashboard.launch import install
    from dashboard.launch.screen import Screen, StepFailed

    if not _only_asks_for_help(command, rest):
        try:
            install.ensure(Screen(), sets=_sets(command, rest))
        except StepFailed as failure:
            print(failure, file=sys.stderr)
            return 1
        if not install.is_inside():
            python = str(install.venv_python())
            os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
    return _dispatch(command, rest)


def _dispatch(command: str, rest: list[str]) -> int:
    if command == "up":
        from dashboard.launch import up

        return up.main(rest)
    if command == "join":
        from dashboard.launch import join

        return join.main(rest)
    if command == "test":
        from dashboard.launch import testing

        return testing.main(rest)
    if command == "lock":
        from dashboard.launch import lock

        return lock.main(rest)
    if command == "decide":
        # Needs neither settings nor database nor Redis.
        from scheduler.management.commands import decide

        return decide.main(rest)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


def _sets(command: str, rest: list[str]) -> tuple[str, ...]:
    """Return the packages that a command needs; the map is measured in a browser."""
    sets = SETS.get(command, ("base",))
    if command == "bench" and "map" in rest:
        sets = SETS["screenshots"]
    for name, variable in BY_VARIABLE.items():
        if os.environ.get(variable, "").strip() and name not in sets:
            sets = (*sets, name)
    return sets


def _only_asks_for_help(command: str, rest: list[str]) -> bool:
    return command in ("up", "join") and bool({"-h", "--help"} & set(rest))


def _use_new_enough_python() -> None:
    if sys.platform == "win32":
        sys.exit("Tidegate runs on Linux and macOS; on Windows use WSL.")
    if sys.version_info >= LEAST_PYTHON:
        return
    import shutil

    for minor in range(14, LEAST_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            os.execv(found, [found, *sys.argv])
    sys.exit(f"Tidegate needs Python 3.11 or later; this is {sys.version.split()[0]}.")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
