"""``manage.py demo day``: 24 hours in some minutes on a loop, with real requests and real processes."""

from __future__ import annotations

import asyncio
import signal
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.host import lock
from scheduler.management.demo_day import run
from scheduler.management.demo_day.callers import Counts
from scheduler.management.verify.stage import NotRunning, find_address
from scheduler.operations import demo_days
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import Refused
from scheduler.tick.demo_day import lock_file


class Command(BaseCommand):
    """Callers follow office hours at the services that have a range; trainings fill the rest.

    Ctrl-C ends it: the callers hang up, the keys are revoked, the trainings go. The page's button
    does the same through a process that the worker begins (``--again``).
    """

    help = "Play a day on the running product: load by office hours, training fills the rest."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["day"])
        usual = demo_days.USUAL_S // 60
        parser.add_argument("--minutes", type=int, default=usual, help=f"of a day, else {usual}")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--again", action="store_true", help="take up the day that is wanted")
        how.add_argument("--clear", action="store_true", help="remove what a day has left")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with lock.hold(lock_file()):
                self._with_lock(options)
        except lock.Held as error:
            raise CommandError("The day is under way already.") from error

    def _with_lock(self, options: dict[str, Any]) -> None:
        run.clear()  # what a process has left that was killed
        if options["clear"]:
            return
        if not options["again"]:
            self._start(options["minutes"] * 60)
        row = demo_days.find()
        if not row.wanted:
            return
        passed_s, counts = 0.0, Counts()
        if options["again"] and row.said_at is not None and row.started_at is not None:
            passed_s = (row.said_at - row.started_at).total_seconds()
            counts = Counts(requests=row.requests, errors=row.errors)
        asked = asyncio.run(self._run(row.day_s, passed_s, counts))
        if asked and not options["again"]:
            self._stop()
        run.clear()

    def _start(self, day_s: int) -> None:
        try:
            url = find_address()
            if demo_days.find().wanted:
                self._stop()  # its process was killed; this one takes its place
            demo_days.start(day_s=day_s, url=url, authority=SYSTEM, now=_now())
        except NotRunning as error:
            raise CommandError(str(error)) from error
        except Refused as refused:
            raise CommandError(" ".join(each.message for each in refused.problems)) from refused
        self.stdout.write(f"A day in {day_s // 60} minutes at {url}. Ctrl-C ends it.")

    async def _run(self, day_s: int, passed_s: float, counts: Counts) -> bool:
        """Carry the day out; returns whether a signal ended it."""
        day = run.Day(day_s=day_s, say=self._say, counts=counts)
        asked = asyncio.Event()

        def end() -> None:
            asked.set()
            day.end()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        await day.run(passed_s=passed_s)
        return asked.is_set()

    def _stop(self) -> None:
        try:
            demo_days.stop(authority=SYSTEM, now=_now())
        except Refused:
            return  # somebody else was faster

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _now() -> datetime:
    return datetime.now(tz=UTC)
