"""Processes through psutil, for systems without /proc. Written for macOS; untested there."""

from __future__ import annotations

import os

import psutil

from scheduler.host.stat import Stat

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def find_stat(pid: int) -> Stat | None:
    """Return one process, or None where no process has this number."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return Stat(
                pid=pid,
                ppid=process.ppid(),
                pgid=os.getpgid(pid),
                start_ticks=int(process.create_time() * 1000),
                is_zombie=process.status() == psutil.STATUS_ZOMBIE,
                cpu_us=int((times.user + times.system) * 1_000_000),
                reaped_cpu_us=0,
                resident_bytes=process.memory_info().rss,
            )
    except (*_GONE, ProcessLookupError):
        return None


def list_pids() -> list[int]:
    """Return the numbers of all processes."""
    return psutil.pids()


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty where it may not be read."""
    try:
        return psutil.Process(pid).environ()
    except _GONE:
        return {}
