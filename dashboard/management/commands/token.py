"""``manage.py token NAME``: an access token of a user, made by whoever runs the machine."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access import tokens
from access.last_admin import PeopleRefused
from access.models import User
from dashboard import problems
from scheduler.operations.authority import SYSTEM


class Command(BaseCommand):
    """Prints the token and nothing else, so that it can be given on: "$(python3 manage.py token admin)"."""

    help = "Make an access token for a user and print it. It is kept nowhere else."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose it is; it may what this user may")
        parser.add_argument("--name", default="command line", help="how it is listed")
        parser.add_argument("--days", type=int, default=30, help="until it ends: 1 to 365 (30)")
        parser.add_argument("--read-only", action="store_true", help="it may only look")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(
            username=options["user"], is_active=True, service_account__isnull=True
        ).first()
        if user is None:
            raise CommandError(f"There is no user “{options['user']}”.")
        terms = tokens.TokenTerms(
            name=options["name"], days=options["days"], read_only=options["read_only"]
        )
        try:
            made = tokens.make(user=user, terms=terms, authority=SYSTEM, now=timezone.now())
        except PeopleRefused as refused:
            said = " ".join(problems.in_words(each) for each in refused.problems)
            raise CommandError(said) from refused
        self.stdout.write(made.secret)
