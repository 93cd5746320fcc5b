"""Runs of the verifications are begun in a process of their own, and found where they were cut short."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from django.conf import settings

from scheduler import models
from scheduler.host import lock
from scheduler.operations import verifications as operations

log = logging.getLogger(__name__)

SCRATCH_PREFIX = "verify-"


def lock_file() -> Path:
    """Return the lock that a run holds as long as its process lives."""
    return Path(settings.DATA_DIR) / "run" / "verify.lock"


def tend(*, now: datetime) -> None:
    """Begin a waiting run; end one whose process is gone; have left scratch trees removed.

    The process is detached: it outlives this worker and the web server, and is not a task, so that
    it keeps no worker from the tick.
    """
    run = operations.find_open()
    # Asked after the row was read: whoever carries a run out has the lock for as long as the row
    # says that it is under way.
    if lock.is_held(lock_file()):
        return
    if run is not None and run.status == models.VerificationRun.Status.QUEUED:
        if operations.claim_spawn(run_id=run.pk, now=now):
            _spawn("--run", str(run.pk))
        return
    if run is not None:
        cut = models.VerificationRun.Status.CUT_SHORT
        if operations.end_run(run_id=run.pk, status=cut, now=now):
            log.warning("verifications.cut_short", extra={"run": run.pk})
    if models.NodePool.objects.filter(scratch=True, name__startswith=SCRATCH_PREFIX).exists():
        _clear()


def _clear() -> None:
    """Have scratch trees removed by one process at a time: it has the lock before it has started up."""
    try:
        with lock.hold(lock_file().with_name("verify-clear.lock")) as held:
            _spawn("--clear", inherited=(held,))
    except lock.Held:
        log.debug("verifications.being_cleared")


def _spawn(*flags: str, inherited: Collection[int] = ()) -> None:
    output = Path(settings.DATA_DIR) / "logs" / "verify.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "wb") as file:
        subprocess.Popen(
            [sys.executable, "manage.py", "verify", *flags],
            cwd=settings.BASE_DIR,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
        )
