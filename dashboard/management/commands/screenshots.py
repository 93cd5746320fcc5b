"""``manage.py screenshots --out DIR``: pictures of every page, of a product that has a story."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.management.own_product import Door, NotStarted
from dashboard.management.screenshots import product
from dashboard.management.screenshots.camera import ALL, FOUR, NoBrowser, open_camera
from dashboard.management.screenshots.pages import SHOTS
from dashboard.management.screenshots.story import NoStory, Story

PASSWORD_VARIABLE = "TIDEGATE_ADMIN_PASSWORD"


class Command(BaseCommand):
    """Starts a product of its own unless it is given the address of one."""

    help = "Photograph every page, in four variants or in all eight."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
        parser.add_argument("--all", action="store_true", help="both sizes, themes and languages")
        parser.add_argument("--only", action="append", default=[], help="a page; repeatable")
        parser.add_argument("--zone", default="Asia/Taipei", help="the reader's time zone")
        parser.add_argument(
            "--address",
            default="",
            help=f"of a product that runs, as it is; the password is in {PASSWORD_VARIABLE}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # The browser's driver runs an event loop in this thread; nothing here uses the database.
        out: Path = options["out"]
        out.mkdir(parents=True, exist_ok=True)
        shots = [shot for shot in SHOTS if not options["only"] or shot.name in options["only"]]
        given = options["address"].rstrip("/")
        try:
            with _door(given) as door, open_camera(door, zone=options["zone"]) as camera:
                if not given:
                    self._tell(camera.context.request, door, camera.csrf)
                for line in camera.take(shots, ALL if options["all"] else FOUR, out):
                    self.stdout.write(line)
                    self.stdout.flush()
        except (NotStarted, NoStory, NoBrowser) as error:
            raise CommandError(str(error)) from error

    def _tell(self, request: Any, door: Door, csrf: str) -> None:
        story = Story(request, address=door.address, csrf=csrf)
        self.stdout.write("The demonstration starts; the pool fills.")
        self.stdout.flush()
        story.prepare()
        story.reclaim()


def _door(address: str) -> AbstractContextManager[Door]:
    if not address:
        return product.running(demo="racks")
    return nullcontext(Door(address=address, password=os.environ.get(PASSWORD_VARIABLE, "")))
