"""``manage.py prepare``: what ``up`` needs done before the servers start, in one process."""

from __future__ import annotations

import hashlib
import json
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

PASSWORD_VARIABLE = "TIDEGATE_ADMIN_PASSWORD"


class Command(BaseCommand):
    """Its last line of output is JSON: was an administrator made, which demonstration was laid."""

    help = "Migrate, collect the pages' files, make the first administrator and the demonstration."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", default="", help="demonstration for a new database")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        _collect_pages_files()
        is_new = not get_user_model().objects.exists()
        demo = options["demo"] if is_new else ""
        if is_new:
            _fill(demo=demo)
        self.stdout.write(json.dumps({"admin_made": is_new, "demo": demo}))


def _fill(*, demo: str) -> None:
    """Make the demonstration and the administrator, or, where one of them fails, neither."""
    password = os.environ.get(PASSWORD_VARIABLE, "")
    if not password:
        raise CommandError(f"{PASSWORD_VARIABLE} is to hold the first administrator's password")
    with transaction.atomic():
        if demo:
            call_command("seed_demo", demo=demo, verbosity=0)
        get_user_model().objects.create_superuser(username="admin", password=password)


def _collect_pages_files() -> None:
    """Copy, hash and compress static files, unless they are those of the last time."""
    if settings.DEBUG:
        return
    root = Path(settings.STATIC_ROOT)
    stamp = root / ".collected"
    seen = _fingerprint()
    if stamp.exists() and stamp.read_text(encoding="ascii") == seen:
        return
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(seen, encoding="ascii")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in finders.get_finders():
        for name, storage in finder.list([]):
            file = Path(storage.path(name))
            about = file.stat()
            digest.update(f"{file}:{about.st_size}:{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()
