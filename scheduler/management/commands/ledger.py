"""``manage.py ledger verify``: recompute the ledger's figures and check that all of it holds."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.core.instants import to_us
from scheduler.queries.usage_check import check_ledger
from scheduler.tick.run import utc_now

SHOWN = 20


class Command(BaseCommand):
    """Exits with 1 where something does not hold, and says what."""

    help = "Check the usage ledger."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=["verify"])

    def handle(self, *args: Any, **options: Any) -> None:
        found = check_ledger(now_us=to_us(utc_now()))
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
