"""The demonstration's day is begun in a process of its own, again where that ended, and cleared up after."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from django.conf import settings

from scheduler.host import lock
from scheduler.operations import demo_days as operations

log = logging.getLogger(__name__)


def lock_file() -> Path:
    """Return the lock that the day's process holds as long as it lives."""
    return Path(settings.DATA_DIR) / "run" / "demo_day.lock"


def tend(*, now: datetime) -> None:
    """Begin a process where the day is wanted and none has it; have left work removed.

    The process is detached: a restart of the web server or the worker does not end it.
    """
    row = operations.find()
    if lock.is_held(lock_file()):
        return
    if row.wanted:
        if operations.claim_spawn(now=now):
            _spawn("--again")
    elif operations.find_left_work() or operations.find_left_keys():
        _spawn("--clear")


def _spawn(flag: str) -> None:
    log.info("demo_day.spawn", extra={"flag": flag})
    output = Path(settings.DATA_DIR) / "logs" / "demo_day.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "wb") as file:
        subprocess.Popen(
            [sys.executable, "manage.py", "demo", "day", flag],
            cwd=settings.BASE_DIR,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
