"""``manage.py doctor``: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from dashboard import doctor
from dashboard.readiness import Finding


class Command(BaseCommand):
    """Exits with 1 where something is wrong; warnings alone exit with 0."""

    help = "Look at settings, folders, database, Redis, worker, timer and records, and say what is wrong."
    #: A setting that is refused is one of the things to be told.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = doctor.examine()
        wrong = [one for one in findings if not one.is_well and not one.is_warning]
        warned = [one for one in findings if one.is_warning]
        if options["json"]:
            rows = [{**asdict(one), "mark": _mark(one)} for one in findings]
            self.stdout.write(json.dumps({"is_well": not wrong, "findings": rows}, indent=2))
        else:
            for one in findings:
                self.stdout.write(f"{_mark(one):5} {one.name}: {one.says}")
                if one.do:
                    self.stdout.write(f"      {one.do}")
            self.stdout.write(f"{len(wrong)} wrong, {len(warned)} to look at.")
        if wrong:
            sys.exit(1)


def _mark(one: Finding) -> str:
    if one.is_well:
        return "ok"
    return "LOOK" if one.is_warning else "WRONG"
