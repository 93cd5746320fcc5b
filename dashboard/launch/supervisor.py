"""Keeps the product's processes alive: starts, restarts with a growing pause, ends in order.

Running workloads are not its children. Orphaned ones fall to it as a reaper; it waits for them
and never signals them.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.launch.processes import Identity, signal_group, spawn, start_of

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One of the product's processes and how to tell that it answers."""

    name: str
    argv: tuple[str, ...]
    answers: Callable[[float], bool]  # given the unix time of its start
    grace_s: float


@dataclass(slots=True, kw_only=True)
class Child:
    """A program with its present process, if it has one."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started: str = ""
    started_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    restart_at: float | None = None
    deaths: int = 0
    was_told_to_end: bool = False

    @property
    def identity(self) -> Identity | None:
        return Identity(pid=self.process.pid, started=self.started) if self.process else None


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Runs programs until it is told to stop."""

    cwd: Path
    logs: Path
    environment: Mapping[str, str]
    report: Callable[[str], None]
    on_change: Callable[[Mapping[str, Identity]], None]
    children: dict[str, Child] = field(default_factory=dict)
    stops_asked: int = 0
    _wakeup: tuple[int, int] = (-1, -1)

    def listen_for_signals(self) -> None:
        """Take Ctrl-C, SIGTERM and the end of the terminal as the wish to stop."""
        self._wakeup = os.pipe()
        for end in self._wakeup:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def is_stop_asked(self) -> bool:
        return self.stops_asked > 0

    def start(self, program: Program) -> None:
        child = Child(program=program)
        self.children[program.name] = child
        self._spawn(child)

    def pause(self, seconds: float) -> None:
        """Sleep, but wake for a signal, and see to what has ended or is due."""
        ready, _, _ = select.select([self._wakeup[0]], [], [], seconds)
        if ready:
            os.read(self._wakeup[0], 4096)
        self._reap()
        self._restart_due()

    def answers(self, name: str) -> bool:
        child = self.children[name]
        return child.process is not None and child.program.answers(child.started_at)

    def restart(self, name: str, *, reason: str) -> None:
        """End a process that is no use any more; it is started again as if it had died."""
        child = self.children[name]
        if child.process is None:
            return
        self.report(f"{name} is restarted: {reason}")
        signal_group(child.process.pid, signal.SIGKILL)

    def stop_all(self, *, order: tuple[str, ...]) -> None:
        """End the programs one after the other; a second Ctrl-C ends the rest at once."""
        patience = self.stops_asked
        for name in order:
            child = self.children.get(name)
            if child is None:
                continue
            child.was_told_to_end = True
            if child.process is None:
                continue
            # Not the group: a worker tells its own pool, which finishes what it has in hand.
            os.kill(child.process.pid, signal.SIGTERM)
            deadline = time.monotonic() + child.program.grace_s
            while child.process and time.monotonic() < deadline and self.stops_asked <= patience:
                self.pause(0.2)
            if child.process:
                signal_group(child.process.pid, signal.SIGKILL)
                while child.process:
                    self.pause(0.2)

    def _spawn(self, child: Child) -> None:
        program = child.program
        log = self.logs / f"{program.name}.log"
        child.started_at = time.time()
        child.process = spawn(program.argv, cwd=self.cwd, environment=self.environment, log=log)
        child.started = start_of(child.process.pid)
        child.restart_at = None
        self._tell_change()

    def _reap(self) -> None:
        """Wait for everything that has ended, ours or fallen to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self.children.values():
                if child.process is not None and child.process.pid == pid:
                    self._bury(child, os.waitstatus_to_exitcode(status))

    def _bury(self, child: Child, code: int) -> None:
        assert child.process is not None
        child.process.returncode = code
        # The pool of a worker that was killed outright may still be there.
        signal_group(child.process.pid, signal.SIGKILL)
        child.process = None
        if child.was_told_to_end:
            return
        child.deaths += 1
        if time.time() - child.started_at > STEADY_AFTER_S:
            child.pause_s = FIRST_PAUSE_S
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self.report(f"{child.program.name} ended ({how}); again in {child.pause_s:g} s")
        child.restart_at = time.monotonic() + child.pause_s
        child.pause_s = min(child.pause_s * 2, LONGEST_PAUSE_S)
        self._tell_change()

    def _restart_due(self) -> None:
        if self.is_stop_asked():
            return
        for child in self.children.values():
            if child.restart_at is not None and time.monotonic() >= child.restart_at:
                self._spawn(child)

    def _tell_change(self) -> None:
        found = {name: child.identity for name, child in self.children.items()}
        self.on_change({name: identity for name, identity in found.items() if identity})

    def _note_stop(self, *_: object) -> None:
        self.stops_asked += 1
