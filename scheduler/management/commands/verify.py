"""``manage.py verify [NUMBER...]``: the article's verifications on the running product."""

from __future__ import annotations

import json
import signal
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.management.verify import engines, runner
from scheduler.management.verify.checks import Check, Result
from scheduler.management.verify.layout import LAYOUTS
from scheduler.management.verify.registry import VERIFICATIONS, AlreadyVerifying, alone
from scheduler.management.verify.scene import SceneNotRemoved
from scheduler.management.verify.stage import START_S, NotRunning, answers, find_address
from scheduler.models import VerificationRun
from scheduler.operations import verifications
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import StateRefused


class Command(BaseCommand):
    """Prints each check as it is made, then a summary; exits with 1 where one failed."""

    help = (
        "Run the article's verifications with real processes in a scratch node pool of the running "
        "product, which is removed afterwards. Without numbers all are run."
    )

    _patience_s = START_S

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "numbers", nargs="*", metavar="NUMBER", help=f"of {', '.join(VERIFICATIONS)}"
        )
        parser.add_argument(
            "--on", choices=sorted(LAYOUTS), default="card", help="one card, or eight devices"
        )
        parser.add_argument(
            "--patience",
            type=float,
            default=START_S,
            help="seconds for which what is expected is waited for (40); more on a busy machine",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")
        parser.add_argument("--url", default="", help="address of the product; default: found")
        parser.add_argument("--run", type=int, help="carry out a run that the page asked for")
        parser.add_argument(
            "--clear",
            action="store_true",
            help="only remove what a run that was cut short has left",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # A process that a worker begins inherits that Ctrl-C is ignored, so it is set as well.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        try:
            if options["clear"]:
                self._clear()
            elif options["run"] is not None:
                self._carry_out_asked(options["run"])
            else:
                self._carry_out_named(options)
        except (
            AlreadyVerifying,
            SceneNotRemoved,
            StateRefused,
            runner.NotToBeRun,
            engines.NoNode,
        ) as error:
            raise CommandError(str(error)) from error

    def _clear(self) -> None:
        with alone() as cleared:
            self.stdout.write(f"Removed {cleared} scratch pool(s).")

    def _carry_out_asked(self, run_id: int) -> None:
        """Carry out what the page asked for, which shows what becomes of it."""
        run = verifications.find_open()
        if run is None or run.pk != run_id:
            raise CommandError(f"Run {run_id} is not waiting.")
        try:
            url = _address(run.url)
        except CommandError as error:
            verifications.end_run(
                run_id=run.pk,
                status=VerificationRun.Status.FAILED,
                trouble=str(error),
                now=datetime.now(tz=UTC),
            )
            raise
        with alone() as cleared:
            self._carry_out(run, url=url, cleared=cleared, is_json=False)

    def _carry_out_named(self, options: dict[str, Any]) -> None:
        numbers = options["numbers"] or list(VERIFICATIONS)
        unknown = [number for number in numbers if number not in VERIFICATIONS]
        if unknown:
            known = ", ".join(VERIFICATIONS)
            raise CommandError(f"There is no verification {', '.join(unknown)}; there are {known}.")
        url = _given_address(options["url"]) if options["url"] else _address("")
        with alone() as cleared:
            run = runner.ask_for(numbers=numbers, layout=options["on"], url=url, authority=SYSTEM)
            self._patience_s = options["patience"]
            self._carry_out(run, url=url, cleared=cleared, is_json=options["json"])

    def _carry_out(self, run: VerificationRun, *, url: str, cleared: int, is_json: bool) -> None:
        printer = _Printer(command=self, is_json=is_json)
        printer.begin(url=url, layout=run.layout, cleared=cleared)
        results = runner.carry_out(run=run, url=url, hearer=printer, patience_s=self._patience_s)
        printer.end(layout=run.layout, results=results)
        if not all(result.passed for result in results):
            raise SystemExit(1)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    """End like on Ctrl-C, so that the scratch pool is removed."""
    raise KeyboardInterrupt


def _given_address(url: str) -> str:
    if not answers(url):
        raise CommandError(f"Nothing answers at {url}.")
    return url


def _address(otherwise: str) -> str:
    """Return the address of the product with this data folder, or ``otherwise`` where it answers."""
    try:
        return find_address()
    except NotRunning as error:
        if otherwise:
            return _given_address(otherwise)
        raise CommandError(str(error)) from error


class _Printer(runner.Hearer):
    """Prints as it goes: words for people, or one JSON object at the end."""

    def __init__(self, *, command: BaseCommand, is_json: bool) -> None:
        self._out = command.stdout
        self._style = command.style
        self._is_json = is_json
        self._before = ("", "")

    def begin(self, *, url: str, layout: str, cleared: int) -> None:
        self._say(f"Verifying the product at {url} in a scratch pool of its own ({layout}).")
        if cleared:
            self._say(f"Removed what an earlier run left: {cleared} scratch pool(s).")

    def title(self, number: str) -> None:
        self._before = ("", "")
        self._say(f"\nVerification {number}: {VERIFICATIONS[number].TITLE}")

    def check(self, check: Check) -> None:
        if check.given != self._before[0]:
            self._say(f"\n  given     {check.given}")
        if (check.given, check.when) != self._before:
            self._say(f"  when      {check.when or '(nothing yet)'}")
        self._before = (check.given, check.when)
        word = self._style.SUCCESS("PASS") if check.passed else self._style.ERROR("FAIL")
        self._say(f"  {word}      expected  {check.expected}")
        self._say(f"            seen      {check.seen}")
        self._say(f"            read in   {check.where}")

    def result(self, result: Result) -> None:
        if result.trouble:
            self._say(f"  {self._style.ERROR('FAIL')}      {result.trouble}")

    def end(self, *, layout: str, results: Sequence[Result]) -> None:
        if self._is_json:
            passed = all(result.passed for result in results)
            rows = [{**asdict(result), "passed": result.passed} for result in results]
            body = {"on": layout, "passed": passed, "verifications": rows}
            self._out.write(json.dumps(body, indent=2))
            return
        self._say("\nSummary")
        for result in results:
            good = sum(check.passed for check in result.checks)
            word = self._style.SUCCESS("PASS") if result.passed else self._style.ERROR("FAIL")
            self._say(
                f"  {word}  {result.number}  {good} of {len(result.checks)} checks  "
                f"{result.took_s:.0f} s  {result.title}"
            )

    def _say(self, text: str) -> None:
        if not self._is_json:
            self._out.write(text)
            self._out.flush()
