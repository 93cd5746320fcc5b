"""All living processes of one replica, and signals to every one of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

from scheduler.engines.records import State
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

    def list_strays(self) -> list[Stat]:
        """Return the living processes whose parents ended: without this one, nothing would lead to them."""
        own = os.getpid()
        return [stat for stat in self.list_members() if stat.ppid == own and stat.pid != self._pid]

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
    """Of a replica whose first supervisor is gone: found by pid, environment, and what was noted of it."""

    def __init__(
        self, *, first: Identity | None, marker: dict[str, str], strays: Iterable[Identity] = ()
    ) -> None:
        self._first = first
        self._marker = marker
        self._known = {*strays, *(() if first is None else (first,))}

    def list_members(self) -> list[Stat]:
        """Return the living processes that carry the mark, are known, or descend from such.

        Who was found once stays known: a process that drops its environment and its parent is not lost.
        """
        found = {stat.pid: stat for stat in find_marked(self._marker)}
        found.update((stat.pid, stat) for stat in map(find_living, self._known) if stat is not None)
        for pid in list(found):
            found.update((stat.pid, stat) for stat in processes.list_descendants(pid))
        found.pop(os.getpid(), None)
        self._known = {identity.identify(stat) for stat in found.values()}
        return list(found.values())

    def list_strays(self) -> list[Stat]:
        """Return the living processes but the first one."""
        first_pid = 0 if self._first is None else self._first.pid
        return [stat for stat in self.list_members() if stat.pid != first_pid]

    def signal_all(self, signum: int) -> None:
        """Signal each process, through a handle that only it can answer to."""
        for stat in self.list_members():
            identity.send_signal(identity.identify(stat), signum)


def find_strays(state: State) -> list[Stat]:
    """Return what lives of the processes that a supervisor noted because nothing leads to them."""
    noted = (Identity(*each) for each in state.get("strays", []))
    return [stat for who in noted if (stat := find_living(who)) is not None]


def find_living(who: Identity) -> Stat | None:
    """Return this very process as it is now; None where it runs no more."""
    return processes.find_stat(who.pid) if identity.is_alive(who) else None


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
