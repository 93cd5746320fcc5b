"""``manage.py restore FILE``: a backup in place of what is here."""

from __future__ import annotations

import tarfile
import zlib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.backups import archive, databases
from dashboard.launch.state import RunState


class Command(BaseCommand):
    """Into an empty installation; --replace where something is here, which is moved aside."""

    help = "Put a backup in place. Nothing may run meanwhile; the next up goes on from it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a file that manage.py backup wrote")
        parser.add_argument(
            "--replace", action="store_true", help="also where there are users already (SQLite)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file = Path(options["file"]).absolute()
        state = RunState(data=Path(settings.DATA_DIR))
        if not state.take():
            raise CommandError(f"Tidegate runs here: {state.read_running()[1]}. End it first.")
        try:
            manifest = archive.read(file)
            if databases.has_content() and not options["replace"]:
                raise databases.NotEmpty
            aside = archive.restore(file)
        except databases.NotEmpty as error:
            raise CommandError(_way_out()) from error
        except (archive.NoBackup, ValueError) as error:
            raise CommandError(str(error)) from error
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise CommandError(f"{file} could not be restored whole: {error}") from error
        lost = _differences(manifest)
        if lost:
            raise CommandError("Not all rows came back: " + ", ".join(lost))
        for place in aside:
            self.stdout.write(f"Moved aside: {place}")
        self.stdout.write(
            f"Restored: {sum(manifest.rows.values())} rows of {manifest.made_at}. Settings of then are "
            f"in {Path(settings.DATA_DIR) / 'restored-settings.env'}; give them to the next up."
        )


def _way_out() -> str:
    if databases.kind() == "postgresql":
        return "This database has users already. Make an empty one and name it in DATABASE_URL."
    return "There are users here already. --replace moves what is here aside."


def _differences(manifest: archive.Manifest) -> list[str]:
    """Return the tables with fewer rows than in the backup; the migrations since may have added some."""
    now = databases.counts()
    return [
        f"{table} {now[table]} of {count}"
        for table, count in manifest.rows.items()
        if table in now and now[table] < count
    ]
