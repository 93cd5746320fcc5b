"""Where a replica's supervisor starts: leave the launcher, take the lock, then start or find."""

from __future__ import annotations

import os
import sys
import time
from errno import ENOENT

from scheduler.engines import records
from scheduler.engines.records import Order, Paths, State
from scheduler.engines.shim.start import ExecFailed, become_subreaper, start
from scheduler.engines.shim.tree import FoundTree, find_marked
from scheduler.engines.shim.watch import Watcher
from scheduler.host import identity

_LOCK_PATIENCE_S = 2.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def main() -> None:
    """Supervise the replica whose directory is the first argument, until it is over."""
    if os.fork():
        os._exit(0)  # so that it is nobody's child, and the launcher has nothing to wait for
    paths = Paths(sys.argv[1])
    lock = _take_lock(paths)
    order = records.find_order(paths)
    if lock is None or order is None:
        return  # another supervises it, or it was forgotten meanwhile
    state = records.find_state(paths)
    if state is None:
        _start(paths=paths, order=order)
    elif state["ended_at_s"] is None:
        _find(paths=paths, order=order, state=state)


def _take_lock(paths: Paths) -> int | None:
    until_s = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            lock = records.try_lock(paths.lock)
        except FileNotFoundError:
            return None
        if lock is not None or time.monotonic() > until_s:
            return lock
        time.sleep(0.05)


def _start(*, paths: Paths, order: Order) -> None:
    become_subreaper()
    state = _first_state()
    watcher = Watcher(paths=paths, order=order, state=state)
    if (request := records.find_stop_request(paths)) is not None:
        state["cause"], state["stop_reason"] = "terminated", request["reason"]
        watcher.write_end()
        return
    watcher.save(force=True)  # from here on the key counts as started, whatever happens
    try:
        pid = start(order=order, output_path=paths.output)
    except ExecFailed as failure:
        state["exit_code"] = _NOT_FOUND if failure.errno == ENOENT else _NOT_EXECUTABLE
        state["cause"] = "launch_failed"
        state["message"] = f"{order['command'][0]}: {failure}"
        watcher.write_end()
        return
    state["process"] = _triple(pid)
    watcher.watch_born(pid)


def _find(*, paths: Paths, order: Order, state: State) -> None:
    marker = records.marker_of(order)
    if state["process"] is None:  # its first supervisor ended before it could write this down
        leaders = [stat.pid for stat in find_marked(marker) if stat.pid == stat.pgid]
        state["process"] = _triple(leaders[0]) if leaders else None
    first = None if state["process"] is None else identity.Identity(*state["process"])
    state["supervisor"] = _triple(os.getpid())
    state["adopted"] = True
    watcher = Watcher(paths=paths, order=order, state=state)
    strays = [identity.Identity(*each) for each in state.get("strays", [])]
    watcher.watch_found(FoundTree(first=first, marker=marker, strays=strays))


def _triple(pid: int) -> tuple[int, int, str]:
    found = identity.find_identity(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return found.pid, found.start_ticks, found.boot_id


def _first_state() -> State:
    return State(
        phase="starting",
        supervisor=_triple(os.getpid()),
        process=None,
        started_at_s=time.time(),
        ready=False,
        ready_at_s=None,
        term_sent_at_s=None,
        ended_at_s=None,
        cause=None,
        stop_reason="",
        exit_code=None,
        signal=None,
        message="",
        over_memory=False,
        memory_peak_mib=None,
        log_disk_full=False,
        checkpoint=None,
        checkpoint_count=0,
        checkpoint_error="",
        resumed=None,
        adopted=False,
    )
