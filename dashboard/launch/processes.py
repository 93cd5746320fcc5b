"""Processes of the product: started to die with their supervisor, known by pid and start time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IS_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process; the pid alone may be another one's by now."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        return self.started != "" and start_of(self.pid) == self.started

    def has_group(self) -> bool:
        """Test whether anybody of the group that this process led is still there."""
        now = start_of(self.pid)
        if now:
            return now == self.started
        # Its number stays taken while its group has members; a reboot begins the numbers anew.
        return IS_LINUX and self.started.startswith(_boot_id()) and _has_members(self.pid)


def start_of(pid: int) -> str:
    """Return a token of the moment the process began; empty where there is no such process."""
    if IS_LINUX:
        return _start_on_linux(pid)
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, begun = shown.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else begun.strip()


def _start_on_linux(pid: int) -> str:
    fields = _living(Path(f"/proc/{pid}/stat"))
    return f"{_boot_id()}:{fields[19]}" if fields else ""


def count_mentioning(*words: str) -> int:
    """Return how many processes name all ``words`` on their command line; 0 beside Linux."""
    found = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # it ended meanwhile, or is another user's
        found += all(word in line for word in words)
    return found


def _has_members(group: int) -> bool:
    found = (_living(file) for file in Path("/proc").glob("[0-9]*/stat"))
    return any(fields and fields[2] == str(group) for fields in found)


def _living(stat: Path) -> list[str]:
    """Return the fields of a process's stat from its state on; none where it has ended."""
    try:
        text = stat.read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    # The name in the second field may hold spaces and brackets itself.
    fields = text.rpartition(")")[2].split()
    return [] if fields[0] in {"Z", "X"} else fields


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]


def become_reaper() -> None:
    """Have orphaned grandchildren fall to this process, which waits for them; Linux alone."""
    if IS_LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)


def spawn(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; on Linux it gets SIGTERM when this process dies."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()) if IS_LINUX else None,
        )


def _end_with(supervisor: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)  # it died in between, and no signal will come

    return prepare


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False where nobody is left in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_groups(leaders: Sequence[Identity], *, grace_s: float) -> None:
    """End the groups of processes of an earlier run: SIGTERM, a pause, SIGKILL."""
    left = [leader for leader in leaders if leader.has_group()]
    for leader in left:
        # A leader tells its own group, which finishes what it has in hand.
        if leader.is_alive():
            os.kill(leader.pid, signal.SIGTERM)
        else:
            signal_group(leader.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(leader.has_group() for leader in left) and time.monotonic() < deadline:
        time.sleep(0.1)
    for leader in left:
        if leader.has_group():
            signal_group(leader.pid, signal.SIGKILL)
