"""The warden of a machine that others count on: where a replica's supervisor was killed, it starts another.

One process for each folder of running work. It belongs to nobody, as supervisors do, so that it outlives
the agent, Ray and Tidegate: without it, nothing would watch the lease of a replica whose supervisor and
agent both died, and the work would go on beside its successor elsewhere.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from scheduler.engines import leases, records
from scheduler.engines.base import ReplicaKey
from scheduler.engines.local import LocalEngine

log = logging.getLogger(__name__)

LOOK_S = 1.0
#: As long as this process's forerunner may take to be gone, or one that only asks for it.
_LOCK_PATIENCE_S = 2.0
_GUARD = "import sys; sys.path[:0] = [{root!r}]; from scheduler.engines.warden import main; main()"


def ensure(data_dir: Path, *, lease: str, lease_s: int) -> None:
    """Start the warden of a folder of running work where none is there."""
    lock = records.try_lock(_lock_path(data_dir))
    if lock is None:
        return
    os.close(lock)
    root = str(Path(__file__).resolve().parents[2])
    with open(data_dir / "warden.log", "ab") as said:
        launcher = subprocess.Popen(
            [
                *(sys.executable, "-I", "-c", _GUARD.format(root=root)),
                *(str(data_dir), lease, str(lease_s)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    launcher.wait()  # it leaves the warden behind at once, which is nobody's child


def main() -> None:
    """Guard the work in the folder that is named first, for as long as there is any, or a fresh lease."""
    if os.fork():
        os._exit(0)
    data_dir, lease, lease_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    lock = _take_lock(data_dir)
    if lock is None:
        return
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    engine = LocalEngine(data_dir=data_dir)
    unwatched: frozenset[ReplicaKey] = frozenset()
    while data_dir.exists():
        lives = True
        try:
            lives, unwatched = look(engine, unwatched_before=unwatched)
        except Exception:  # a full disk, a machine out of processes: the next look may succeed
            log.warning("warden.look.failed", exc_info=True)
        if not lives and leases.age_s(lease) > lease_s:
            return
        time.sleep(LOOK_S)


def look(
    engine: LocalEngine, *, unwatched_before: frozenset[ReplicaKey]
) -> tuple[bool, frozenset[ReplicaKey]]:
    """Give each replica a supervisor that had none at two looks; return whether any lives, and who has none.

    At one look alone it may be just about to get one.
    """
    found = engine.list_unended()
    unwatched = frozenset(key for key, is_watched in found.items() if not is_watched)
    for key in sorted(unwatched & unwatched_before):
        engine.revive(key)
    return bool(found), unwatched


def _take_lock(data_dir: Path) -> int | None:
    until_s = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        lock = records.try_lock(_lock_path(data_dir))
        if lock is not None or time.monotonic() > until_s:
            return lock
        time.sleep(0.05)


def _lock_path(data_dir: Path) -> str:
    return str(data_dir / "warden.lock")
