"""What the core decides on: frozen facts of one node pool at one instant, all in UTC microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.units import UNLIMITED_MGPU, WHOLE_GPU_MGPU
from scheduler.core.vocabulary import DEFAULT_WEIGHT, Kind, Level, Rank, Reason, ReplicaPhase

NO_LABELS: Mapping[str, str] = {}
#: "No bound", for CPU and memory.
UNLIMITED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU of a node. ``memory_mib`` None: unknown, and memory requests don't fit it."""

    index: int
    memory_mib: int | None = None
    model: str = ""
    healthy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. ``cpu_milli`` or ``memory_mib`` None: plenty."""

    name: str
    devices: tuple[Device, ...]
    cpu_milli: int | None = None
    memory_mib: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    #: False: lost or cordoned. What runs there keeps its place; nothing new comes.
    schedulable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuota:
    """What one queue may hold in this pool. ``limit_mgpu`` counts only where ``over_quota``."""

    quota_mgpu: int = 0
    limit_mgpu: int = UNLIMITED_MGPU
    over_quota: bool = True
    rank: int = Rank.MEDIUM_LOW
    #: Share of the surplus inside one rank, in thousandths of the weight shown; 0: after all others.
    weight_milli: int = DEFAULT_WEIGHT * 1000
    cpu_quota_milli: int = UNLIMITED
    cpu_limit_milli: int = UNLIMITED
    memory_quota_mib: int = UNLIMITED
    memory_limit_mib: int = UNLIMITED

    @property
    def effective_limit_mgpu(self) -> int:
        """The limit that counts: the quota itself where borrowing is switched off."""
        return self.limit_mgpu if self.over_quota else self.quota_mgpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """The upper level of queues."""

    id: int
    name: str
    quota: QueueQuota


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The lower level of queues. A project belongs to one department."""

    id: int
    name: str
    department_id: int
    quota: QueueQuota


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one replica asks for.

    ``devices`` different devices of one node, each with ``request_mgpu`` (1..999 a fraction, 1000 a
    whole device) or, where ``gpu_memory_mib`` is given, with that much memory. No GPU: devices 0.
    """

    devices: int = 1
    request_mgpu: int = 0
    gpu_memory_mib: int | None = None
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def is_whole(self) -> bool:
        """Test whether it needs wholly free devices."""
        return self.devices > 0 and self.request_mgpu == WHOLE_GPU_MGPU

    @property
    def is_memory(self) -> bool:
        """Test whether it asks for GPU memory instead of a share."""
        return self.devices > 0 and self.gpu_memory_mib is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one replica is or would be: device indices of one node, ascending."""

    node: str
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica that holds its place: starting, running or stopping."""

    id: int
    placement: Placement
    phase: ReplicaPhase = ReplicaPhase.RUNNING
    started_at_us: int = 0
    #: For ``STOPPING``: the workload that its devices are kept for, if any.
    vacated_for_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBack:
    """That an emergency control lets nothing of a workload start before an instant, and which does."""

    until_us: int
    reason: Reason
    #: Whose starts are paused; None: those of the cluster, or of the one workload.
    level: Level | None = None
    queue_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One or more replicas of the same request. Ended and stopped workloads are not in a snapshot.

    ``min_replicas``: of a gang the part that comes whole, of a service the number below which it is
    degraded. ``max_replicas``: how many are wanted now; those above the minimum are further replicas.
    """

    id: int
    name: str
    project_id: int
    kind: Kind
    priority: int
    preemptible: bool
    request: Request
    submitted_at_us: int
    min_replicas: int = 1
    max_replicas: int = 1
    replicas: tuple[Replica, ...] = ()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    #: Node names that it may use; None: any.
    allowed_nodes: frozenset[str] | None = None
    #: GPU models that it may use; empty: any.
    gpu_models: frozenset[str] = frozenset()
    #: The last checkpoint mark; work lost counts from the later of this and the last start.
    checkpoint_at_us: int | None = None
    #: When it began to run this time; None where no replica runs. The minimum runtime counts from it.
    running_since_us: int | None = None
    #: The next start is not tried before this instant.
    backing_off_until_us: int | None = None
    #: Nothing of it starts while an emergency control says so.
    kept_back: KeptBack | None = None
    #: Places kept for it until its victims are gone.
    nominated: tuple[Placement, ...] = ()
    #: Since when it has been at the head of its queue lacking only devices.
    starving_since_us: int | None = None

    @property
    def is_gang(self) -> bool:
        """Test whether the minimum comes whole or not at all. Services admit each replica alone."""
        return self.kind is not Kind.INFERENCE and self.min_replicas > 1

    @property
    def may_pause(self) -> bool:
        """Test whether there is an instant before which it is not tried."""
        return self.backing_off_until_us is not None or self.kept_back is not None

    def is_kept_back(self, now_us: int) -> bool:
        """Test whether an emergency control lets nothing of it start now."""
        return self.kept_back is not None and self.kept_back.until_us > now_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of a pool that the rules read."""

    fair_share_reclaim: bool = False
    spread: bool = False
    consolidation: bool = False
    min_runtime_s: int = 0
    #: 0: never reserve.
    starvation_after_s: int = 600
    #: Victim sets tried before the greedy set is taken.
    search_bound: int = 4_000
    #: Until then nobody is interrupted for another's sake (an emergency control).
    frozen_until_us: int | None = None

    def is_frozen(self, now_us: int) -> bool:
        """Test whether nobody may be interrupted now."""
        return self.frozen_until_us is not None and self.frozen_until_us > now_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One node pool, whole. Order of the parts carries no meaning."""

    nodes: tuple[Node, ...]
    departments: tuple[Department, ...]
    projects: tuple[Project, ...]
    workloads: tuple[Workload, ...]
