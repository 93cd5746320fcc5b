"""The files by which an engine and its replicas' supervisors know of each other.

Each replica has a directory named by its key. Files are replaced whole, so a reader sees the old or
the new, never half. Light imports only: every supervisor loads this.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

#: Freed when the volume is full, so that the end of a replica can still be written down.
_RESERVE_BYTES = 16 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Fetch(TypedDict):
    """Data that have to be fetched before the work begins."""

    name: str
    source: str
    about: dict[str, str]
    secrets: dict[str, str]


class Errand(TypedDict):
    """What the first process does before it becomes the work itself."""

    fetches: list[Fetch]
    store: str
    work_dir: str
    cwd: str
    command: list[str]


class Order(TypedDict):
    """What the supervisor is to run. Written once, before it starts; holds the environment."""

    key: str
    workload_id: int
    node_name: str
    command: list[str]
    env: dict[str, str]
    cwd: str
    log_dir: str
    wake_path: str
    port: int | None
    readiness_path: str
    start_timeout_s: int
    master_port: int | None
    grace_s: int
    log_limit_mib: int
    wall_mib: int | None  # None: there is no slice to keep to
    wall_is_resident: bool  # on a virtual device: of resident memory, watched by the supervisor
    wall_stops: bool
    errand: Errand | None
    # Not in orders of before 0.2: a supervisor may outlive the version that wrote its order.
    host: NotRequired[str]
    lease: NotRequired[str]
    lease_s: NotRequired[int]


class MarkRecord(TypedDict):
    """A mark as the workload wrote it. Numbers with a point are kept as their text."""

    at_s: float
    step: int | None
    epoch: int | None
    elapsed_s: str | int | None
    best: str | int | None
    size_bytes: int | None


class ProgressRecord(TypedDict):
    """One report of how far the workload is."""

    number: int
    at_s: float
    step: int | None
    total: int | None
    epoch: int | None
    metrics: dict[str, float]


Phase = Literal["starting", "running", "stopping", "exited", "lost"]


class State(TypedDict):
    """What is so now. Processes are (pid, start ticks, boot id); instants seconds since 1970."""

    phase: Phase
    supervisor: tuple[int, int, str]
    process: tuple[int, int, str] | None
    started_at_s: float
    ready: bool
    ready_at_s: float | None
    term_sent_at_s: float | None
    ended_at_s: float | None
    cause: str | None
    stop_reason: str
    exit_code: int | None
    signal: int | None
    message: str
    over_memory: bool
    memory_peak_mib: int | None
    log_disk_full: bool
    checkpoint: MarkRecord | None
    checkpoint_count: int
    checkpoint_error: str
    resumed: MarkRecord | None
    adopted: bool
    #: Processes of the replica that neither its first one leads to nor the mark of its environment may tell.
    strays: NotRequired[list[tuple[int, int, str]]]


class StopRequest(TypedDict):
    """How a replica is asked to end."""

    grace_s: int
    reason: str
    over_memory: str  # what passed the wall, where that is why; else empty


class Paths(NamedTuple):
    """Where a replica's files lie."""

    directory: str

    @property
    def order(self) -> str:
        """What to run (readable by the owner alone)."""
        return os.path.join(self.directory, "order.json")

    @property
    def state(self) -> str:
        """What is so now."""
        return os.path.join(self.directory, "state.json")

    @property
    def progress(self) -> str:
        """The latest reports of how far it is."""
        return os.path.join(self.directory, "progress.json")

    @property
    def stop(self) -> str:
        """The request to end, which outlives the supervisor."""
        return os.path.join(self.directory, "stop.json")

    @property
    def lock(self) -> str:
        """Held by the one supervisor of the replica for as long as it lives."""
        return os.path.join(self.directory, "lock")

    @property
    def heartbeat(self) -> str:
        """Its modification time is the last sure sign of life."""
        return os.path.join(self.directory, "heartbeat")

    @property
    def control(self) -> str:
        """A FIFO: a byte in it makes the supervisor look at once."""
        return os.path.join(self.directory, "control")

    @property
    def output(self) -> str:
        """A FIFO: the replica's output. The replica reads it too, so it never breaks."""
        return os.path.join(self.directory, "output")

    @property
    def reserve(self) -> str:
        """Room set aside for the last word on a full volume."""
        return os.path.join(self.directory, "reserve")

    @property
    def diary(self) -> str:
        """What the supervisor itself has to say: tracebacks."""
        return os.path.join(self.directory, "supervisor.log")


def prepare(paths: Paths) -> None:
    """Make what a replica's directory holds before its supervisor starts."""
    for fifo in (paths.control, paths.output):
        with contextlib.suppress(FileExistsError):
            os.mkfifo(fifo, 0o600)
    with open(paths.reserve, "wb") as file:
        file.write(bytes(_RESERVE_BYTES))
    with open(paths.heartbeat, "ab"):
        pass


def write_json(path: str, value: Any, *, reserve: str | None = None) -> None:
    """Replace a file by ``value`` as JSON, whole or not at all, readable by the owner alone."""
    text = json.dumps(value)
    try:
        _replace(path, text)
    except OSError as error:
        if error.errno not in _FULL or reserve is None or not os.path.exists(reserve):
            raise
        os.unlink(reserve)
        _replace(path, text)


def _replace(path: str, text: str) -> None:
    aside = f"{path}.{os.getpid()}.new"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)  # or a loss of power may leave an empty file under the name
    except OSError:
        os.unlink(aside)
        raise
    os.replace(aside, path)


def find_json(path: str) -> Any:
    """Return what a file holds, or None where there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def find_order(paths: Paths) -> Order | None:
    """Return what the replica is to run, or None where nothing was ordered."""
    order: Order | None = find_json(paths.order)
    return order


def host_of(order: Order) -> str:
    """Return the address at which the replica listens, if it is a service."""
    return order.get("host", "127.0.0.1")


def marker_of(order: Order) -> dict[str, str]:
    """Return what every process of the replica was started with in its environment."""
    return {name: order["env"][name] for name in ("TIDEGATE_REPLICA", "TIDEGATE_ENGINE")}


def find_state(paths: Paths) -> State | None:
    """Return what is so now, or None before its supervisor has said anything."""
    state: State | None = find_json(paths.state)
    return state


def find_progress(paths: Paths) -> list[ProgressRecord]:
    """Return the latest reports of how far the replica is, the oldest first."""
    reports: list[ProgressRecord] = find_json(paths.progress) or []
    return reports


def find_stop_request(paths: Paths) -> StopRequest | None:
    """Return how the replica is asked to end, or None."""
    request: StopRequest | None = find_json(paths.stop)
    return request


def try_lock(path: str) -> int | None:
    """Return an open handle that holds the lock, or None where another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def poke(fifo: str) -> bool:
    """Wake whoever listens at a FIFO, and tell whether anyone does."""
    try:
        handle = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, OSError) as error:
        if isinstance(error, FileNotFoundError) or error.errno == errno.ENXIO:
            return False
        raise
    try:
        os.write(handle, b".")
    except BlockingIOError:
        return True  # so full of wakes that one more says nothing
    except BrokenPipeError:
        return False
    finally:
        os.close(handle)
    return True
