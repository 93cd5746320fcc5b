"""Fill an empty cluster with a demonstration: nodes, hierarchy, quotas, and work that really runs."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import DEMONSTRATIONS
from scheduler.operations.demonstrations import ClusterNotEmpty, lay_out
from scheduler.tick.run import utc_now


class Command(BaseCommand):
    """``manage.py seed_demo --demo card|server|racks``."""

    help = "Fill an empty cluster with a demonstration."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--demo", default="card", choices=sorted(DEMONSTRATIONS))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lay_out(demonstration=DEMONSTRATIONS[options["demo"]], authority=SYSTEM, now=utc_now())
        except ClusterNotEmpty as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"The demonstration {options['demo']} is laid out.")
