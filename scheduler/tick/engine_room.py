"""The engines and the sampler of this process. Made once; they hold no truth of their own."""

from __future__ import annotations

import fcntl
import logging
from functools import cache
from pathlib import Path

from django.conf import settings

from scheduler import models
from scheduler.engines.base import Engine
from scheduler.engines.registry import make_engine
from scheduler.telemetry.base import Sampler
from scheduler.telemetry.registry import make_sampler

log = logging.getLogger(__name__)


@cache
def engine(name: str) -> Engine:
    """Return this process's engine of that name (the ``engine`` field of nodes)."""
    folder = Path(settings.WORKLOADS_DIR)
    if name == "local":
        claim(folder=folder, owner=str(models.Cluster.objects.one().uid))
    return make_engine(name, data_dir=folder)


def claim(*, folder: Path, owner: str) -> None:
    """Take the folder of running work for the database ``owner``.

    Work that another database started there is set aside: its replica ids are not ours. A replica
    ends when its directory is gone from its place, so nothing of it runs on unseen.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "owner.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "owner"
        found = mark.read_text() if mark.exists() else ""
        if found == owner:
            return
        work = folder / "engine"
        if found and work.exists():
            aside = folder / f"engine-of-{found}"
            log.warning("engine_room.work_of_another_database", extra={"aside": str(aside)})
            work.rename(aside)
        mark.write_text(owner)


@cache
def sampler(name: str) -> Sampler:
    """Return this process's sampler for the replicas of the engine ``name``."""
    return make_sampler(name)
