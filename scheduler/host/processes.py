"""What this machine tells of its processes: parents, groups, CPU time, memory, environment.

Linux is read from /proc, anything else through psutil (written for macOS, untested there).
Reading a process that ends meanwhile is no error: it is then absent.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from scheduler.host.stat import Stat

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: One tick of the kernel's clock, in which it counts CPU time and tells starts.
TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def find_stat(pid: int) -> Stat | None:
    """Return one process, or None where no process has this number."""
    if sys.platform != "linux":
        from scheduler.host import portable

        return portable.find_stat(pid)
    text = _read_text(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(
        pid=pid,
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        start_ticks=int(fields[19]),
        is_zombie=fields[0] in "ZX",
        cpu_us=(int(fields[11]) + int(fields[12])) * TICK_US,
        reaped_cpu_us=(int(fields[13]) + int(fields[14])) * TICK_US,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def list_pids() -> list[int]:
    """Return the numbers of all processes."""
    if sys.platform != "linux":
        from scheduler.host import portable

        return portable.list_pids()
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def list_descendants(pid: int) -> list[Stat]:
    """Return all living processes below ``pid``, itself not included, zombies not included."""
    if sys.platform != "linux" or not _has_children_lists():
        return _list_descendants_by_scan(pid)
    found: dict[int, Stat] = {}
    ahead = [pid]
    while ahead:
        for child in _list_children(ahead.pop()):
            stat = find_stat(child)
            if stat is not None and child not in found:
                found[child] = stat
                ahead.append(child)
    return [stat for stat in found.values() if not stat.is_zombie]


def list_group(pgid: int) -> list[Stat]:
    """Return the living processes of a process group."""
    stats = (find_stat(pid) for pid in list_pids())
    return [stat for stat in stats if stat is not None and stat.pgid == pgid and not stat.is_zombie]


def _list_children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children.extend(
                map(int, (_read_text(f"/proc/{pid}/task/{task}/children") or "").split())
            )
    except _GONE:
        pass  # it ended while we looked: what it had moves to its parent, and is found there
    return children


@cache
def _has_children_lists() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _list_descendants_by_scan(root: int) -> list[Stat]:
    stats = [stat for pid in list_pids() if (stat := find_stat(pid)) is not None]
    family = {root}
    grew = True
    while grew:
        more = {stat.pid for stat in stats if stat.ppid in family} - family
        family |= more
        grew = bool(more)
    return [s for s in stats if s.pid in family and s.pid != root and not s.is_zombie]


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty where it may not be read."""
    if sys.platform != "linux":
        from scheduler.host import portable

        return portable.read_environ(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except _GONE:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def resident_mib(stats: list[Stat], *, exact_above_mib: int) -> int:
    """Return the memory that processes hold together, in MiB.

    Pages that they share are counted once where the plain sum passes ``exact_above_mib``: exact
    counting costs the kernel a walk, and matters only near a wall.
    """
    total = sum(stat.resident_bytes for stat in stats)
    if len(stats) > 1 and total > exact_above_mib * 2**20:
        total = sum(_proportional_bytes(stat) for stat in stats)
    return total // 2**20


def _proportional_bytes(stat: Stat) -> int:
    text = _read_text(f"/proc/{stat.pid}/smaps_rollup") if sys.platform == "linux" else None
    for line in (text or "").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return stat.resident_bytes


def read_run_ns(pid: int) -> tuple[int, int] | None:
    """Return the nanoseconds that a process's living threads ran and waited for a CPU.

    None where the kernel does not tell.
    """
    if sys.platform != "linux":
        return None
    ran = waited = 0
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except _GONE:
        return None
    known = False
    for task in tasks:
        text = _read_text(f"/proc/{pid}/task/{task}/schedstat")
        if text:
            run_text, wait_text, _ = text.split()
            ran, waited, known = ran + int(run_text), waited + int(wait_text), True
    return (ran, waited) if known else None


def _read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except _GONE:
        return None
