"""Whose work lies in a folder: one database's. What another left there is set aside and ends."""

from __future__ import annotations

import fcntl
import logging
from pathlib import Path

log = logging.getLogger(__name__)


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
            log.warning("claims.work_of_another_database", extra={"aside": str(aside)})
            work.rename(aside)
        mark.write_text(owner)
