"""All living processes of one replica, and signals to every one of them."""

from __future__ import annotations

import os
import signal
import sys

from scheduler.host import identity, processes
from scheduler.host.identity import Identity
from scheduler.host.stat import Stat


class BornTree:
    """Of a replica that this process started. As their subreaper, it is above all of them."""

    def __init__(self, *, pid: int, marker: dict[str, str]) -> None:
        self._pid = pid
        self._marker = marker
        self._reaped = False

    def list_members(self) -> list[Stat]:
        """Return the living processes, those included that left the group or the session."""
        found = {stat.pid: stat for stat in processes.list_descendants(os.getpid())}
        if sys.platform != "linux":  # without a subreaper, orphans are somebody else's children
            found.update((stat.pid, stat) for stat in find_marked(self._marker))
        return list(found.values())

    def signal_all(self, signum: int) -> None:
        """Signal the whole group at once, then each process outside of it."""
        group: int | None = None
        if not self._reaped:  # the number of the group is ours for as long as this holds
            group = self._pid
            os.killpg(group, signum)
        for stat in self.list_members():
            if stat.pgid != group:
                identity.send_signal(identity.identify(stat), signum)

    def reap(self) -> int | None:
        """Reap what has ended, and return the first process's wait status if it is among that."""
        status_of_first: int | None = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status_of_first
            if pid == 0:
                return status_of_first
            if pid == self._pid:
                self._reaped, status_of_first = True, status


class FoundTree:
    """Of a replica whose first supervisor is gone: found by pid, group and environment."""

    def __init__(self, *, first: Identity | None, marker: dict[str, str]) -> None:
        self._first = first
        self._marker = marker

    def list_members(self) -> list[Stat]:
        """Return the living processes that descend from the first one or carry the mark."""
        found = {stat.pid: stat for stat in find_marked(self._marker)}
        if self._first is not None and identity.is_alive(self._first):
            first = processes.find_stat(self._first.pid)
            found.update({} if first is None else {first.pid: first})
        for pid in list(found):
            found.update((stat.pid, stat) for stat in processes.list_descendants(pid))
        found.pop(os.getpid(), None)
        return list(found.values())

    def signal_all(self, signum: int) -> None:
        """Signal each process, through a handle that only it can answer to."""
        for stat in self.list_members():
            identity.send_signal(identity.identify(stat), signum)


def find_marked(marker: dict[str, str]) -> list[Stat]:
    """Return the living processes that were started with all of these environment values."""
    found = []
    for pid in processes.list_pids():
        environ = processes.read_environ(pid)
        if all(environ.get(name) == value for name, value in marker.items()):
            stat = processes.find_stat(pid)
            if stat is not None and not stat.is_zombie:
                found.append(stat)
    return found


def describe_status(status: int) -> tuple[int | None, int | None]:
    """Return a wait status as (exit code, signal), one of which is None."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, int(signal.Signals(-code)))
