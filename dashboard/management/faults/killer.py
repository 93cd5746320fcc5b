"""Carries the faults of a schedule out, on processes that are found when it is their time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from dashboard.launch.install import ROOT
from dashboard.launch.postgres import PostgresAway, TemporaryServer
from dashboard.launch.processes import Identity, signal_group
from dashboard.launch.programs import beat_program
from dashboard.management.faults.clock import SteppedClock
from dashboard.management.faults.load import WORK
from dashboard.management.faults.schedule import Fault, Kind
from dashboard.management.faults.volume import Volume
from dashboard.management.own_cluster import NAMES, Cluster
from dashboard.management.own_product import OwnProduct

SUPERVISOR = "scheduler.engines.shim"
POSTGRES_TRIES, POSTGRES_PAUSE_S = 20, 0.5


class Killer:
    """Does what a fault says. ``cannot`` says what this run can't do, and why."""

    def __init__(
        self,
        *,
        product: OwnProduct,
        port: int,
        volume: Volume,
        clock: SteppedClock | None,
        postgres: TemporaryServer | None,
        cluster: Cluster | None,
    ) -> None:
        self._product = product
        self._port = port
        self._volume = volume
        self._clock = clock
        self._postgres = postgres
        self._cluster = cluster
        self._one_at_a_time: dict[Kind, threading.Lock] = {kind: threading.Lock() for kind in Kind}
        self._restarting = threading.Lock()

    def cannot(self) -> dict[Kind, str]:
        """Return what is not injected here, with the reason."""
        found: dict[Kind, str] = {}
        if self._postgres is None:
            found[Kind.POSTGRES_KILLED] = "the database is SQLite (--postgres)"
        if self._cluster is None:
            for kind in (Kind.RAYLET_KILLED, Kind.AGENT_KILLED, Kind.NODE_KILLED):
                found[kind] = "work runs on one machine (--ray)"
        if not self._volume.can_fill:
            found[Kind.DISK_FULL] = "no file system may be mounted here"
        if self._clock is None:
            why = "no C compiler builds the library that steps the clock"
            found |= {Kind.CLOCK_AHEAD: why, Kind.CLOCK_BACK: why}
        return found

    def inject(self, fault: Fault) -> bool:
        """Carry a fault out and return when it is over; False where there was nobody to hit."""
        with self._one_at_a_time[fault.kind]:
            return self._acts()[fault.kind](fault)

    def _acts(self) -> dict[Kind, Callable[[Fault], bool]]:
        return {
            Kind.WORKER_KILLED: lambda _: self._kill("worker"),
            Kind.WORKER_PART_KILLED: self._kill_part_of_worker,
            Kind.WORKER_FROZEN: lambda fault: self._freeze("worker", fault.for_s),
            Kind.BEAT_KILLED: lambda _: self._kill("beat"),
            Kind.SECOND_BEAT: self._run_second_beat,
            Kind.WEB_KILLED: lambda _: self._kill("web"),
            Kind.REDIS_KILLED: lambda _: self._kill("redis"),
            Kind.REDIS_FROZEN: lambda fault: self._freeze("redis", fault.for_s),
            Kind.POSTGRES_KILLED: self._kill_postgres,
            Kind.ALL_KILLED: self._kill_all,
            Kind.RAYLET_KILLED: self._kill_raylet,
            Kind.AGENT_KILLED: self._kill_agent,
            Kind.NODE_KILLED: self._kill_node,
            Kind.SUPERVISOR_KILLED: lambda fault: self._kill_one_of(SUPERVISOR, fault.choice),
            Kind.WORK_KILLED: lambda fault: self._kill_one_of(str(WORK), fault.choice),
            Kind.DISK_FULL: self._fill_disk,
            Kind.CLOCK_AHEAD: lambda fault: self._step_clock(int(fault.for_s)),
            Kind.CLOCK_BACK: lambda fault: self._step_clock(-int(fault.for_s)),
        }

    # --- The product's processes --------------------------------------------------------------

    def _kill(self, name: str) -> bool:
        with self._living(name) as who:
            if who is not None:
                os.kill(who.pid, signal.SIGKILL)
            return who is not None

    def _freeze(self, name: str, for_s: float) -> bool:
        with self._living(name) as who:
            if who is None:
                return False
            signal_group(who.pid, signal.SIGSTOP)
        time.sleep(for_s)
        if who.has_group():
            signal_group(who.pid, signal.SIGCONT)
        return True

    def _kill_part_of_worker(self, fault: Fault) -> bool:
        with self._living("worker") as who, suppress(psutil.NoSuchProcess):
            parts = psutil.Process(who.pid).children() if who else []
            if parts:
                _choose(parts, fault.choice).kill()
                return True
        return False

    def _run_second_beat(self, fault: Fault) -> bool:
        redis_url = (self._product.data / "redis.url").read_text(encoding="utf-8").strip()
        with open(self._product.data / "logs" / "second-beat.log", "ab") as log:
            beat = subprocess.Popen(
                beat_program(redis_url=redis_url).argv,
                cwd=ROOT,
                env=self._product.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        time.sleep(fault.for_s)
        beat.kill()
        beat.wait()
        return True

    def _kill_all(self, _fault: Fault) -> bool:
        """Kill ``up`` and all that it runs; a person starts it again."""
        with self._restarting:
            assert self._product.process is not None
            self._product.process.kill()
            for who in self._product.children().values():
                signal_group(who.pid, signal.SIGKILL)
            self._product.process.wait()
            self._product.start(port=self._port)
        return True

    @contextmanager
    def _living(self, name: str) -> Iterator[Identity | None]:
        """Give a process of the product while nobody restarts all of it; None where it is not there."""
        with self._restarting:
            who = self._product.children().get(name)
            yield who if who and who.is_alive() else None

    # --- Everything else ----------------------------------------------------------------------

    def _kill_one_of(self, word: str, choice: float) -> bool:
        found = [each for each in processes_of(self._product.data.parent) if _mentions(each, word)]
        if not found:
            return False
        with suppress(psutil.NoSuchProcess):
            _choose(found, choice).kill()
            return True
        return False

    def _kill_postgres(self, fault: Fault) -> bool:
        if self._postgres is None:
            return False
        self._postgres.kill()
        time.sleep(fault.for_s)
        for left in reversed(range(POSTGRES_TRIES)):
            try:
                self._postgres.start()
                break
            except PostgresAway:
                if not left:
                    raise
                time.sleep(POSTGRES_PAUSE_S)  # processes of the one before are still there
        return True

    def _kill_raylet(self, fault: Fault) -> bool:
        return self._cluster is not None and self._cluster.kill_raylet(_node(fault))

    def _kill_agent(self, fault: Fault) -> bool:
        return self._cluster is not None and self._cluster.kill_agent(_node(fault))

    def _kill_node(self, fault: Fault) -> bool:
        """Kill all that makes a machine a node; it comes back after a while."""
        if self._cluster is None:
            return False
        self._cluster.kill(_node(fault))
        time.sleep(fault.for_s)
        self._cluster.join(_node(fault))
        return True

    def _fill_disk(self, fault: Fault) -> bool:
        if not self._volume.can_fill:
            return False
        try:
            self._volume.fill()
            time.sleep(fault.for_s)
        finally:
            self._volume.give_back()
        return True

    def _step_clock(self, seconds: int) -> bool:
        if self._clock is None:
            return False
        self._clock.step_to(seconds)
        return True


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes of all that lies in a folder, work and supervisors too, by pid."""
    found = []
    data = str(folder)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = " ".join(process.cmdline())
            if data in words or data in "\n".join(process.environ().values()):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def _node(fault: Fault) -> str:
    return NAMES[int(fault.choice * len(NAMES))]


def _mentions(process: psutil.Process, word: str) -> bool:
    with suppress(psutil.Error):
        return word in " ".join(process.cmdline())
    return False


def _choose(found: list[psutil.Process], choice: float) -> psutil.Process:
    return found[int(choice * len(found))]
