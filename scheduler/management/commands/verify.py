"""``manage.py verify [NUMBER...]``: the article's verifications on the running product."""

from __future__ import annotations

import json
import signal
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.management.verify.checks import Check, Result
from scheduler.management.verify.layout import LAYOUTS
from scheduler.management.verify.registry import VERIFICATIONS, AlreadyVerifying, alone, run_one
from scheduler.management.verify.scene import SceneNotRemoved
from scheduler.management.verify.stage import NotRunning, answers, find_address


class Command(BaseCommand):
    """Prints each check as it is made, then a summary; exits with 1 where one failed."""

    help = (
        "Run the article's verifications with real processes in a scratch node pool of the running "
        "product, which is removed afterwards. Without numbers all are run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "numbers", nargs="*", metavar="NUMBER", help=f"of {', '.join(VERIFICATIONS)}"
        )
        parser.add_argument(
            "--on", choices=sorted(LAYOUTS), default="card", help="one card, or eight devices"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead")
        parser.add_argument("--url", default="", help="address of the product; default: found")

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = options["numbers"] or list(VERIFICATIONS)
        unknown = [number for number in numbers if number not in VERIFICATIONS]
        if unknown:
            known = ", ".join(VERIFICATIONS)
            raise CommandError(f"There is no verification {', '.join(unknown)}; there are {known}.")
        signal.signal(signal.SIGTERM, _interrupt)
        url = _address(options["url"])
        printer = _Printer(command=self, is_json=options["json"])
        try:
            with alone() as cleared:
                printer.begin(url=url, layout=options["on"], cleared=cleared)
                results = [self._run_one(number, url, options["on"], printer) for number in numbers]
        except (AlreadyVerifying, SceneNotRemoved) as error:
            raise CommandError(str(error)) from error
        printer.end(layout=options["on"], results=results)
        if not all(result.passed for result in results):
            raise SystemExit(1)

    def _run_one(self, number: str, url: str, layout: str, printer: _Printer) -> Result:
        printer.title(number)
        result = run_one(number=number, url=url, layout=LAYOUTS[layout], on_check=printer.check)
        printer.result(result)
        return result


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    """End like on Ctrl-C, so that the scratch pool is removed."""
    raise KeyboardInterrupt


def _address(given: str) -> str:
    if given:
        if not answers(given):
            raise CommandError(f"Nothing answers at {given}.")
        return given
    try:
        return find_address()
    except NotRunning as error:
        raise CommandError(str(error)) from error


class _Printer:
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
