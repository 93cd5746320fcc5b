"""Who a process is: its number, its start and the boot, never the number alone. Signals to it.

Standard library only on Linux, and light: the supervisor of every replica imports it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import cache
from typing import NamedTuple

from scheduler.host import processes
from scheduler.host.stat import Stat

# From linux/pidfd.h: the first published layout of struct pidfd_info, and how to ask for it.
_PIDFD_INFO_BYTES = 64
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO_BYTES << 16) | (0xFF << 8) | 11


class Identity(NamedTuple):
    """A process for good: no other has the same three, also after a reboot or a reused number."""

    pid: int
    start_ticks: int
    boot_id: str


@cache
def read_boot_id() -> str:
    """Return what changes with every boot of this machine."""
    if sys.platform != "linux":
        import psutil

        return f"boot-{int(psutil.boot_time())}"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def find_identity(pid: int) -> Identity | None:
    """Return the identity of the process that has this number now, or None where none has."""
    stat = processes.find_stat(pid)
    return None if stat is None else identify(stat)


def identify(stat: Stat) -> Identity:
    """Return the identity of a process that was read."""
    return Identity(pid=stat.pid, start_ticks=stat.start_ticks, boot_id=read_boot_id())


def is_alive(identity: Identity) -> bool:
    """Test whether this very process still runs. One that only waits to be reaped does not."""
    stat = processes.find_stat(identity.pid)
    return (
        stat is not None
        and stat.start_ticks == identity.start_ticks
        and not stat.is_zombie
        and read_boot_id() == identity.boot_id
    )


def send_signal(identity: Identity, signum: int) -> bool:
    """Send a signal to this very process, and tell whether it was still there to get it.

    On Linux the check and the signal use one handle, so the number can't change hands between.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return _send_signal_by_number(identity, signum)
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError:  # gone, or a kernel without process handles
        return _send_signal_by_number(identity, signum)
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _send_signal_by_number(identity: Identity, signum: int) -> bool:
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, signum)
    except ProcessLookupError:
        return False
    return True


def started_at_s(identity: Identity) -> float:
    """Return when the process started, in seconds since 1970, by this machine's clock."""
    if sys.platform != "linux":
        return identity.start_ticks / 1000
    since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - since_boot_s + identity.start_ticks / os.sysconf("SC_CLK_TCK")


def open_exit_watch(identity: Identity) -> int | None:
    """Return a handle by which the end of this process can be read, where the kernel has such."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError:
        return None
    if is_alive(identity):
        return handle
    os.close(handle)
    return None


def find_wait_status(handle: int) -> int | None:
    """Return how a process ended that was no child of ours, where the kernel tells (Linux 6.15)."""
    if sys.platform != "linux":
        return None
    import fcntl

    info = bytearray(_PIDFD_INFO_BYTES)
    info[0:8] = _PIDFD_INFO_EXIT.to_bytes(8, sys.byteorder)
    try:
        fcntl.ioctl(handle, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    told = int.from_bytes(info[0:8], sys.byteorder)
    if not told & _PIDFD_INFO_EXIT:
        return None
    return int.from_bytes(info[60:64], sys.byteorder, signed=True)
