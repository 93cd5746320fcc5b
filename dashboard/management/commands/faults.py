"""``manage.py faults``: a product of its own is broken at random under load; what must hold is looked at."""

from __future__ import annotations

import secrets
import signal
import time
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.launch.postgres import PostgresAway
from dashboard.management.faults.run import Outcome, carry_out, make_place
from dashboard.management.faults.schedule import EVERY_S, draw
from dashboard.management.own_product import NotStarted
from scheduler.management.benches.table import machine

SHOWN = 20
LEAST_S = 20


class Command(BaseCommand):
    """Prints each fault as it comes and a summary; exits with 1 where anything does not hold."""

    help = (
        "Start a product of its own with eight virtual devices, put load on it, kill and freeze its "
        "processes, fill its disk and step its clock, and look afterwards: did anything run twice at "
        "once, was anything lost, does the ledger hold. Needs nothing that runs already."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--minutes", type=float, default=20.0, help="how long faults come (20)")
        parser.add_argument(
            "--seed", type=int, help="the same seed, the same faults at the same times"
        )
        parser.add_argument(
            "--every",
            type=float,
            default=EVERY_S,
            help="seconds between two faults, in the mean (12); more where starts take long",
        )
        parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of its own")
        parser.add_argument(
            "--ray",
            action="store_true",
            help="work runs on a cluster of its own, three nodes on the loopback with three devices each",
        )
        parser.add_argument("--keep", type=Path, help="a folder for logs and notes afterwards")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _interrupt)
        seconds = options["minutes"] * 60
        if not LEAST_S <= seconds <= 24 * 3600:
            raise CommandError(f"--minutes: from {LEAST_S / 60:.2f} to a day")
        seed = secrets.randbelow(10**6) if options["seed"] is None else options["seed"]
        if not options["every"] > 0:
            raise CommandError("--every: more than 0")
        faults = draw(seed=seed, seconds=seconds, every_s=options["every"])
        self._say(f"Seed {seed}: {len(faults)} faults in {options['minutes']:g} minutes.")
        began = time.monotonic()
        try:
            with make_place(
                on_postgres=options["postgres"], on_ray=options["ray"], keep=options["keep"]
            ) as place:
                outcome = carry_out(
                    place=place, seed=seed, faults=faults, seconds=seconds, say=self._say
                )
        except (NotStarted, PostgresAway) as error:
            raise CommandError(str(error)) from error
        self._sum_up(outcome, seed=seed, took_s=time.monotonic() - began)
        if not outcome.is_good:
            raise SystemExit(1)

    def _sum_up(self, outcome: Outcome, *, seed: int, took_s: float) -> None:
        told = outcome.told
        self._say(f"\nSummary of seed {seed}, {took_s / 60:.1f} minutes, {machine()}")
        self._figure("faults injected", sum(outcome.injected.values()))
        for kind, count in sorted(outcome.injected.items()):
            self._say(f"    {count:>4}  {kind}")
        for kind, why in sorted(outcome.not_injected.items()):
            self._say(f"       -  {kind}: not injected, {why}")
        self._figure("workloads", len(told.sent) + len(told.services))
        for what, count in sorted((*told.counts.items(), *told.errors.items())):
            self._say(f"    {count:>4}  {what}")
        for what, count in sorted(outcome.log_errors.items()):
            self._say(f"    {count:>4}  logged as an error: {what}")
        for name, lines in outcome.found.by_name().items():
            self._figure(name, len(lines))
            for line in lines[:SHOWN]:
                self._say(f"          {line}")
            if len(lines) > SHOWN:
                self._say(f"          and {len(lines) - SHOWN} more")
        word = self.style.SUCCESS("PASS") if outcome.is_good else self.style.ERROR("FAIL")
        self._say(str(word))

    def _figure(self, name: str, count: int) -> None:
        self._say(f"{name:<24}{count:>6}")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End like on Ctrl-C, so that the product ends too."""
    raise KeyboardInterrupt
