"""``manage.py docs``: the documentation as pages, in two languages; broken links and anchors fail."""

from __future__ import annotations

import logging
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.docs_site.source import ROOT, gather


class Command(BaseCommand):
    """Writes to var/docs unless told otherwise."""

    help = "Build the documentation as pages, in two languages. Broken links and anchors fail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", default="var/docs", help="folder for the pages (var/docs)")

    def handle(self, *args: Any, **options: Any) -> None:
        # The made pages read the commands of the client, which is a package of its own.
        sys.path.insert(0, str(ROOT / "client"))
        out = Path(options["out"]).absolute()
        with tempfile.TemporaryDirectory(prefix="tidegate-docs-") as folder:
            gather(Path(folder))
            _build(folder, out)
        self.stdout.write(f"The documentation is in {out}: open {out / 'index.html'}")


def _build(folder: str, out: Path) -> None:
    from mkdocs.commands import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    _say_warnings()
    try:
        config = load_config(
            config_file=str(ROOT / "mkdocs.yml"), docs_dir=folder, site_dir=str(out), strict=True
        )
        config.plugins.on_startup(command="build", dirty=False)
        build.build(config)
    except Abort as abort:
        raise CommandError(f"The documentation is not whole: {abort}") from abort


def _say_warnings() -> None:
    logger = logging.getLogger("mkdocs")
    logger.setLevel(logging.WARNING)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
