"""``manage.py test``: brings up what the tests need, runs them, and says what was left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.launch.install import ROOT
from dashboard.launch.postgres import PostgresAway, temporary_postgres
from dashboard.launch.screen import Screen

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_TESTS = 5
LONGEST_TEST_S = 600  # a test that hangs fails
#: Tests with these marks start a whole product: two files at a time.
PRODUCT = "product or browser"
#: These too, in a process of their own: Ray keeps threads in whoever speaks to it.
CLUSTER = "ray"
CHOOSING = ("-m", "-k", "-n", "--numprocesses", "--pdb", "--lf", "--ff")
COUNTED = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One run of pytest that is to be: what it is called, its own arguments and environment."""

    title: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run of pytest: its exit code and what it counted and left out."""

    code: int
    counts: Mapping[str, int]
    left_out: Mapping[str, int]


def main(argv: Sequence[str]) -> int:
    screen = Screen()
    with ExitStack() as stack:
        # Work that is just ending may still write what it compiled while this goes.
        made = tempfile.TemporaryDirectory(prefix="tidegate-test-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        environment = _environment(folder, is_full="--full" in argv)
        postgres_url = _start_postgres(stack, screen)
        environment["TIDEGATE_TEST_POSTGRES_URL"] = postgres_url
        screen.note(f"Chromium: {environment.get('TIDEGATE_CHROMIUM') or 'none'}")
        passes: list[Pass] = []
        for stage in _stages(argv, postgres_url):
            if stage.title:
                screen.say(screen.style(f"\n{stage.title}", "bold"))
            notes = folder / f"{len(passes)}.json"
            given = {**environment, **stage.environment}
            passes.append(_run_pytest([*stage.arguments, *argv], given, notes))
    _say_what_was_left_out(screen, passes, has_postgres=bool(postgres_url))
    return max(one.code for one in passes)


def _stages(argv: Sequence[str], postgres_url: str) -> list[Stage]:
    """Return what is run one after the other: side by side what may be, alone what has a whole product.

    A caller that chooses tests or processes, or that only lists, gets one stage a database.
    """
    again = {"TIDEGATE_TEST_DATABASE": "postgres", "DATABASE_URL": postgres_url}
    on_postgres = "Again on PostgreSQL: what depends on the database"
    if _is_listing(argv):
        return [Stage()]
    if any(word.startswith(CHOOSING) or not word.startswith("-") for word in argv):
        stages = [Stage(), Stage(title=on_postgres, environment=again)]
    else:
        # Two processes at least: what is tested waits more than it counts.
        beside = ("--numprocesses", str(max(2, os.cpu_count() or 1)), "--dist", "loadfile")
        stages = [
            Stage(arguments=(*beside, "-m", f"not ({PRODUCT} or {CLUSTER})")),
            Stage(
                title="Two at a time: what starts a whole product",
                arguments=("--numprocesses", "2", "--dist", "loadfile", "-m", PRODUCT),
            ),
            Stage(title="A cluster of three nodes", arguments=("-m", CLUSTER)),
            Stage(
                title=on_postgres,
                arguments=() if "--full" in argv else beside,
                environment=again,
            ),
        ]
    return stages if postgres_url else stages[:-1]


def _environment(folder: Path, *, is_full: bool) -> dict[str, str]:
    environment = {**os.environ, "TIDEGATE_DATA": str(folder / "data")}
    for name in ("DATABASE_URL", "REDIS_URL", "TIDEGATE_ADMIN_PASSWORD", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    # Products and commands are started by the hundred: each module is compiled once for all of them.
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    environment["TIDEGATE_TEST_FULL"] = "1" if is_full else "0"
    if not environment.get("TIDEGATE_CHROMIUM"):
        found = next(filter(None, map(shutil.which, BROWSERS)), "")
        environment["TIDEGATE_CHROMIUM"] = found
    return environment


def _start_postgres(stack: ExitStack, screen: Screen) -> str:
    try:
        with screen.step("PostgreSQL for the tests"):
            return stack.enter_context(temporary_postgres())
    except PostgresAway as away:
        screen.warn(f"no PostgreSQL: {away}")
        return ""


def _run_pytest(argv: Sequence[str], environment: Mapping[str, str], notes: Path) -> Pass:
    command = [sys.executable, "-m", "pytest", f"--timeout={LONGEST_TEST_S}", *argv]
    given = {**environment, "TIDEGATE_TEST_NOTES": str(notes)}
    code = subprocess.run(command, cwd=ROOT, env=given, check=False).returncode
    if not notes.exists():
        return Pass(code=code, counts={}, left_out={})
    told = json.loads(notes.read_text(encoding="utf-8"))
    # A choice of tests by the caller may leave nothing for the one database or the other.
    code = 0 if code == NO_TESTS else code
    return Pass(code=code, counts=told["counts"], left_out=told["left_out"])


def _is_listing(argv: Sequence[str]) -> bool:
    return bool({"--collect-only", "--co", "--fixtures", "--markers", "-h", "--help"} & set(argv))


def _say_what_was_left_out(screen: Screen, passes: Sequence[Pass], *, has_postgres: bool) -> None:
    left_out: dict[str, int] = {}
    for one in passes:
        for reason, count in one.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + count
    if not has_postgres:
        left_out.setdefault("no PostgreSQL: everything ran on SQLite alone", 0)
    screen.say()
    for reason, count in sorted(left_out.items()):
        screen.say(f"Left out: {reason}" + (f" ({count} tests)" if count else ""))
    if not left_out:
        screen.say("Nothing was left out.")
    totals = {name: sum(one.counts.get(name, 0) for one in passes) for name in COUNTED}
    screen.say("Tests: " + ", ".join(f"{totals[name]} {name}" for name in COUNTED))
