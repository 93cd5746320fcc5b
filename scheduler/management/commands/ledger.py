"""``manage.py ledger``: check that all of the ledger holds, roll its hours up, or make them again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.core.instants import to_us
from scheduler.operations import usage_rollup
from scheduler.queries.usage_check import check_ledger
from scheduler.tick.run import utc_now

SHOWN = 20
#: Of one transaction; it ends with the month in any case.
MOST_DAYS = 31


class Command(BaseCommand):
    """Exits with 1 where something does not hold, and says what."""

    help = "Check the usage ledger, or roll its closed hours up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=["verify", "rollup", "rebuild"])

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "verify":
            self._verify()
            return
        if options["act"] == "rebuild":
            usage_rollup.forget_all()
        hours = 0
        while more := usage_rollup.roll_up(now=utc_now(), most_days=MOST_DAYS):
            hours += more
        self.stdout.write(f"{hours} hours are rolled up.")

    def _verify(self) -> None:
        now_us = to_us(utc_now())
        found = check_ledger(now_us=now_us)
        found["rolled-up hours are those of the intervals"] = list(
            usage_rollup.differences(now_us=now_us)
        )
        for name, problems in found.items():
            self.stdout.write(f"{'ok' if not problems else 'NOT'}  {name}")
            for problem in problems[:SHOWN]:
                self.stdout.write(f"     {problem}")
            if len(problems) > SHOWN:
                self.stdout.write(f"     and {len(problems) - SHOWN} more")
        count = sum(len(problems) for problems in found.values())
        if count:
            raise CommandError(f"The ledger is not sound: {count} findings.")
        self.stdout.write("The ledger is sound.")
