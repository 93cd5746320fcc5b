"""``manage.py backup FILE``: everything that this installation keeps, in one file, also while it runs."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.backups import archive, databases


class Command(BaseCommand):
    """Database, keys, settings, uploaded data, and checkpoints and logs of work."""

    help = "Write a backup of everything into one file; the product may run meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="where to, such as tidegate-2026-11-02.tar.gz")
        parser.add_argument(
            "--without-work", action="store_true", help="leave checkpoints and logs of work out"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file = Path(options["file"]).absolute()
        if not file.parent.is_dir():
            raise CommandError(f"There is no folder {file.parent}.")
        if not databases.has_content():
            raise CommandError(
                f"Nothing is installed in {settings.DATA_DIR}. TIDEGATE_DATA and DATABASE_URL say which "
                "installation is meant."
            )
        manifest = archive.write(file, with_work=not options["without_work"])
        size_mib = file.stat().st_size / 2**20
        self.stdout.write(
            f"{file}: {manifest.database}, {sum(manifest.rows.values())} rows of "
            f"{len(manifest.rows)} tables, {size_mib:.1f} MiB. It holds secrets: keep it closed."
        )
