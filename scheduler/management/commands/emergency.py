"""``manage.py emergency``: pause starts, freeze interruptions, hold a workload, while no page answers."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler import models
from scheduler.core.emergency import ControlKind
from scheduler.operations import emergency as operations
from scheduler.operations.authority import SystemAuthority
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import emergency as queries
from scheduler.queries import emergency_words
from scheduler.queries.visibility import SYSTEM as ALL


class Command(BaseCommand):
    """Works on the database alone: the next tick of any worker obeys."""

    help = "List, set and end emergency controls."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parts = parser.add_subparsers(dest="what")
        for kind in ControlKind:
            part = parts.add_parser(kind.value)
            part.add_argument("--minutes", type=int, default=60, help="until its end (60)")
            part.add_argument("--reason", required=True, help="everyone concerned reads it")
            if kind is ControlKind.PAUSE:
                part.add_argument("--department", help="by name; else the whole cluster")
                part.add_argument("--project", help="by name")
            if kind is ControlKind.HOLD:
                part.add_argument("workload", type=int, help="its number")
        end = parts.add_parser("end")
        end.add_argument("control", type=int, help="its number in the list")

    def handle(self, *args: Any, **options: Any) -> None:
        authority = SystemAuthority(name="command line")
        now = timezone.now()
        try:
            if options["what"] == "end":
                operations.end_control(control_id=options["control"], authority=authority, now=now)
            elif options["what"]:
                order = operations.Order(
                    kind=options["what"],
                    reason=options["reason"],
                    until=now + timedelta(minutes=options["minutes"]),
                    department_id=_id(models.Department, options.get("department")),
                    project_id=_id(models.Project, options.get("project")),
                    workload_id=options.get("workload"),
                )
                operations.set_control(order=order, authority=authority, now=now)
        except Refused as error:
            raise CommandError(" ".join(each.message for each in error.problems)) from error
        except NotFound as error:
            raise CommandError("There is no such thing.") from error
        rows = queries.list_controls(visible=ALL, now=now)
        for row in rows:
            self.stdout.write(f"{row.id}  {emergency_words.in_force(row)} {row.reason}")
        if not rows:
            self.stdout.write("No emergency control is in force.")


def _id(table: type[models.Department | models.Project], name: str | None) -> int | None:
    """Return the id of a living unit by its name, None where none is asked for."""
    if not name:
        return None
    found = list(table.objects.filter(name=name, deleted_at=None).values_list("pk", flat=True)[:2])
    if len(found) != 1:
        raise CommandError(f"There is no {name}." if not found else f"There are several {name}.")
    return int(found[0])
