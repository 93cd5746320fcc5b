"""Starts a replica's first process: own session, own group, its own environment, nothing else."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

from scheduler.engines.records import Order

_PR_SET_CHILD_SUBREAPER = 36
#: Where the machine runs out of memory, work goes before what governs it.
_OOM_SCORE_ADJ = 500


class ExecFailed(Exception):
    """The command could not be executed; carries the system's error number."""

    def __init__(self, *, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


def become_subreaper() -> None:
    """Have processes whose parents end come to this one, so none of the tree is ever lost."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def start(*, order: Order, output_path: str) -> int:
    """Start the replica's command and return its pid once it is being executed.

    Raises:
        ExecFailed: it could not be.
    """
    failed_read, failed_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_command(order=order, output_path=output_path, failed_write=failed_write)
    os.close(failed_write)
    with os.fdopen(failed_read, "rb") as failed:
        said = failed.read()  # empty once the command runs: the pipe closes on execution
    if said:
        os.waitpid(pid, 0)
        raise ExecFailed(errno=int(said))
    return pid


def _become_command(*, order: Order, output_path: str, failed_write: int) -> None:
    try:
        os.setsid()
        os.chdir(order["cwd"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(output_path, os.O_RDWR)  # to read too: without a reader, writing waits
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _reset_inherited()
        os.execvpe(order["command"][0], order["command"], order["env"])
    except OSError as error:
        os.write(failed_write, str(error.errno).encode())
    finally:
        os._exit(127)


def _reset_inherited() -> None:
    os.umask(0o022)
    for signum in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash must not fill the volume
    if sys.platform == "linux":
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(_OOM_SCORE_ADJ))
