"""What an engine is: the Engine protocol, what it is given, what it tells, how it fails.

An engine carries out what the tables say; it decides nothing. Every call may be repeated: launching
or terminating twice is the same as once. No Django here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from scheduler.core.vocabulary import SourceType


class EngineError(Exception):
    """Base of all engine failures.

    * EngineError
      * EngineUnreachable   try again next tick; nothing is known about the replicas
      * LaunchRefused       this spec will never run here; the workload fails with the message
    """


class EngineUnreachable(EngineError):
    """The engine does not answer. It is not an engine that runs nothing."""


class LaunchRefused(EngineError):
    """The spec can never run on this engine. The message is for the workload's owner."""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One start of one replica. The engine runs each key at most once, ever."""

    replica_id: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.replica_id}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> ReplicaKey:
        """Return the key written as ``12-1``.

        Raises:
            ValueError: the text is not a key.
        """
        replica_id, _, attempt = text.partition("-")
        return cls(replica_id=int(replica_id), attempt=int(attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGrant:
    """A slice of one device. ``memory_mib`` is what the replica sees as its total there."""

    index: int
    uuid: str
    request_mgpu: int
    memory_mib: int
    virtual: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A replica's place among those that start and end together."""

    rank: int
    world_size: int
    master_addr: str
    master_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What makes a replica a service: it is given a port and must answer on a path."""

    readiness_path: str = "/health"
    start_timeout_s: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Data that a replica finds in its working directory under ``name``.

    ``about`` says where they lie, by the type of source; ``secrets`` are for fetching alone and reach
    nothing but that. A host path counts only ``within`` one of these folders, as they really are.
    """

    name: str
    source: SourceType
    about: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    within: tuple[str, ...] = ()

    def get(self, key: str) -> str:
        """Return one value of ``about``; empty where it says nothing."""
        return dict(self.about).get(key, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """All that an engine needs to run one replica.

    ``storage_key`` names the working and checkpoint directories. They belong to the workload (a
    gang's replicas share them) and outlive its attempts.
    """

    key: ReplicaKey
    workload_id: int
    project_name: str
    workload_name: str
    command: tuple[str, ...]
    storage_key: str
    node_name: str = ""
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets
    mounts: tuple[Mount, ...] = ()
    working_dir: str = ""  # below the working directory; empty: that itself
    devices: tuple[DeviceGrant, ...] = ()
    service: Service | None = None
    gang: Gang | None = None
    restart_count: int = 0
    grace_s: int = 30
    log_limit_mib: int = 50
    memory_wall: bool = True
    #: Where it may tell how far it is, and what it shows there; both empty where there is no such place.
    progress_url: str = ""
    progress_token: str = field(default="", repr=False)
    #: Of a workspace with a page: below which path it is shown, and what it must ask for; else empty.
    workspace_path: str = ""
    workspace_secret: str = field(default="", repr=False)

    @property
    def gpu_mgpu(self) -> int:
        """The amount granted over all devices."""
        return sum(device.request_mgpu for device in self.devices)

    @property
    def gpu_memory_mib(self) -> int:
        """The device memory granted over all devices."""
        return sum(device.memory_mib for device in self.devices)


class EnginePhase(StrEnum):
    """The state of one replica as its engine sees it."""

    STARTING = "starting"
    RUNNING = "running"  # a service: it has answered on its readiness path
    STOPPING = "stopping"  # it is ending; some process of it is still there
    EXITED = "exited"  # no process of it is left, and how it ended is known
    LOST = "lost"  # no process of it is left, and how it ended is not known


#: Phases in which some process of the replica may still use its devices.
LIVE_PHASES = (EnginePhase.STARTING, EnginePhase.RUNNING, EnginePhase.STOPPING)


class EndCause(StrEnum):
    """Why a replica is ending or has ended."""

    EXITED = "exited"  # by itself, or by a signal that the engine did not send
    TERMINATED = "terminated"  # as asked for by ``terminate``; ``stop_reason`` is the caller's
    OVER_MEMORY = "over_memory"  # it took more than its slice
    START_TIMEOUT = "start_timeout"  # a service that was not ready in time
    LAUNCH_FAILED = "launch_failed"  # its command could not be executed
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a service listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A checkpoint or resume line of a workload. Numbers are exactly those that it wrote."""

    at: datetime
    step: int | None = None
    epoch: int | None = None
    elapsed_s: Decimal | None = None
    best: Decimal | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """How far a workload says that it is, and its numbers. ``number`` counts a replica's reports from 1."""

    number: int
    at: datetime
    step: int | None = None
    total: int | None = None
    epoch: int | None = None
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an engine knows of one replica. All instants are aware UTC."""

    key: ReplicaKey
    workload_id: int
    phase: EnginePhase
    last_seen_at: datetime  # the last sure sign of life: the ledger closes a lost replica here
    node_name: str = ""
    ready: bool = False
    started_at: datetime | None = None
    ready_at: datetime | None = None
    term_sent_at: datetime | None = None
    ended_at: datetime | None = None  # when its last process was gone
    cause: EndCause | None = None
    stop_reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""  # for people: why the launch failed, what passed the wall
    over_memory: bool = False
    memory_peak_mib: int | None = None
    log_disk_full: bool = False
    pid: int | None = None
    pid_started_at: datetime | None = None
    supervisor_pid: int | None = None  # every process of the replica descends from it
    endpoint: Endpoint | None = None
    checkpoint: Mark | None = None
    checkpoint_count: int = 0
    checkpoint_error: str = ""  # why the last save failed; empty once one succeeds again
    resumed: Mark | None = None
    adopted: bool = False  # its first supervisor is gone and another watches it


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of a replica's output.

    Offsets count bytes since the start of the output, those cut away included. Between
    ``cut_from`` and ``cut_to`` nothing is kept (equal where nothing was cut).
    """

    data: bytes
    offset: int
    next_offset: int
    size_bytes: int
    cut_from: int = 0
    cut_to: int = 0
    #: Offsets of this piece with the milliseconds since 1970 at which what follows them came.
    times: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """The piece as text; bytes that are not UTF-8 become replacement characters."""
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """One device of a node. A virtual one is a stand-in where there is no GPU."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    virtual: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """What a machine has."""

    hostname: str
    cpu_milli: int
    memory_mib: int
    devices: tuple[DeviceInfo, ...] = field(default_factory=tuple)


class Standing(StrEnum):
    """What an engine can say of one node since its last look."""

    ANSWERS = "answers"
    SILENT = "silent"  # nothing is known: what runs there may go on
    GONE = "gone"  # it is certain that nothing of it runs any more


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedNode:
    """A machine that has joined an engine's cluster by itself. An empty pool: the first one."""

    name: str
    pool_name: str
    inventory: NodeInventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A live process that carries this engine's mark and belongs to no replica it knows."""

    key: ReplicaKey
    pid: int
    started_at: datetime
    node_name: str = ""


class Engine(Protocol):
    """How replicas run. Any call may raise EngineUnreachable."""

    def launch(self, spec: LaunchSpec) -> None:
        """Start the replica. Does nothing where this key was launched before, also if it ended.

        Raises:
            LaunchRefused: it can never run here.
        """

    def observe(self) -> tuple[Observation, ...]:
        """Return all replicas that were launched and not forgotten, by key, of nodes that answer."""

    def standing(self, node_name: str) -> Standing:
        """Return what the last ``observe`` says of a node. One that is not known is silent."""

    def joined_nodes(self) -> tuple[JoinedNode, ...]:
        """Return the machines that joined by themselves and answered the last ``observe``."""

    def terminate(self, key: ReplicaKey, *, grace_s: int, reason: str) -> None:
        """SIGTERM to every process, SIGKILL after the grace period. Returns at once.

        Said again, the earlier of the two ends holds and no further SIGTERM is sent. An unknown
        or ended key is no error.
        """

    def forget(self, key: ReplicaKey) -> None:
        """Drop an ended replica, whose end is recorded. Its log stays readable.

        Raises:
            EngineError: it has not ended.
        """

    def read_log(self, key: ReplicaKey, *, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return output from ``offset`` on, or the last ``limit_bytes`` where it is None."""

    def read_progress(self, key: ReplicaKey, *, after: int) -> tuple[ProgressReport, ...]:
        """Return what a replica that is not forgotten reported on its output after report ``after``.

        Of many only the latest are kept.
        """

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica that was forgotten."""

    def delete_storage(self, storage_key: str) -> None:
        """Drop the working and checkpoint directories of a workload that is no more."""

    def find_meeting_point(self, node_name: str) -> Endpoint:
        """Return where a gang can meet on a node: an unused port, of no replica of this engine."""

    def orphans(self) -> tuple[Orphan, ...]:
        """Return live processes that carry this engine's mark and belong to no known replica."""

    def end_orphan(self, orphan: Orphan) -> None:
        """SIGKILL an orphan, if it still is the process that was listed."""

    def wait_for_change(self, *, timeout_s: float) -> bool:
        """Wait until a replica may have turned to another phase, at most so long; tell whether."""
