"""The words of the product: kinds, phases, ranks, reasons, rules. Named sets live beside them."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Kind(StrEnum):
    """What a workload is for."""

    TRAINING = "training"
    DISTRIBUTED = "distributed"
    WORKSPACE = "workspace"
    INFERENCE = "inference"


class Phase(StrEnum):
    """The state of a workload. A closed set; idle and draining are marks, not phases."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"  # a service that runs with fewer replicas than its minimum
    STOPPING = "stopping"  # SIGTERM was sent; devices are held until every process is gone
    STOPPED = "stopped"  # by a person or by a rule; can be started again
    COMPLETED = "completed"
    FAILED = "failed"


#: Phases in which a workload may hold devices.
HOLDING_PHASES = (Phase.STARTING, Phase.RUNNING, Phase.DEGRADED, Phase.STOPPING)
#: Phases that a workload leaves only by a person's act.
END_PHASES = (Phase.STOPPED, Phase.COMPLETED, Phase.FAILED)


class ReplicaPhase(StrEnum):
    """The state of one replica. Only ``ENDED`` holds nothing."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Rank(IntEnum):
    """The order in which siblings get idle surplus. It protects nothing and costs no guarantee."""

    LOW = 1
    MEDIUM_LOW = 2
    MEDIUM = 3
    MEDIUM_HIGH = 4
    HIGH = 5


class Priority(IntEnum):
    """The seven named levels. Any number from 1 to 1000 is accepted beside them."""

    VERY_LOW = 25
    LOW = 40
    MEDIUM_LOW = 65
    MEDIUM = 80
    MEDIUM_HIGH = 90
    HIGH = 125
    VERY_HIGH = 150


PRIORITY_MIN = 1
PRIORITY_MAX = 1000
#: From this number on a workload is non-preemptible unless it was set by hand.
NON_PREEMPTIBLE_FROM = 100

DEFAULT_PRIORITY: dict[Kind, Priority] = {
    Kind.TRAINING: Priority.LOW,
    Kind.DISTRIBUTED: Priority.LOW,
    Kind.WORKSPACE: Priority.HIGH,
    Kind.INFERENCE: Priority.VERY_HIGH,
}

DEFAULT_RANK = Rank.MEDIUM_LOW
DEFAULT_WEIGHT = 2


def is_preemptible(*, priority: int, explicit: bool | None) -> bool:
    """Resolve preemptibility: what was set by hand wins, else it follows the number."""
    if explicit is not None:
        return explicit
    return priority < NON_PREEMPTIBLE_FROM


class Level(StrEnum):
    """The two levels of queues."""

    PROJECT = "project"
    DEPARTMENT = "department"


class Rule(StrEnum):
    """Why a running workload is interrupted by the scheduler."""

    RECLAIM = "reclaim"  # between projects, for a guarantee
    PREEMPT = "preempt"  # inside one project, by priority
    CONSOLIDATE = "consolidate"  # moved, to make one hole out of several
    LOST = "lost"  # a gang that fell below its minimum by a loss


class Reason(StrEnum):
    """Why a workload waits. Sentences are made where they are shown."""

    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    NO_MATCHING_NODE = "NoMatchingNode"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    FRAGMENTED = "Fragmented"
    RESERVED = "Reserved"
    NOMINATED = "Nominated"
    BACKING_OFF = "BackingOff"
    STARTS_PAUSED = "StartsPaused"  # by an emergency control over its scope
    HELD_BACK = "HeldBack"  # by one over this workload


class Lack(StrEnum):
    """What one node lacks for a request; the counts stand beside a reason."""

    NOT_SCHEDULABLE = "not_schedulable"
    LABELS = "labels"
    GPU_MODEL = "gpu_model"
    DEVICES = "devices"  # too few devices even when empty
    GPU = "gpu"  # too little unheld GPU in all
    GPU_FRAGMENTED = "gpu_fragmented"  # enough in all, no device takes it
    CPU = "cpu"
    MEMORY = "memory"
    KEPT = "kept"  # it would fit, but is kept for another


class AssetKind(StrEnum):
    """What can be defined once and named by many submissions."""

    SOURCE = "source"  # data to be mounted
    ENVIRONMENT = "environment"  # command, variables and working directory
    CREDENTIAL = "credential"  # secrets, passed to work as its environment
    TEMPLATE = "template"  # a whole submission


class SourceType(StrEnum):
    """Where a data source lies."""

    TREE = "tree"  # files that were uploaded once
    GIT = "git"
    S3 = "s3"
    HOST_PATH = "host_path"
    NFS = "nfs"


class Readers(StrEnum):
    """Who reads a saved report beside its owner."""

    ME = "me"
    #: Who sees every unit that it tells of.
    UNIT = "unit"
    ALL = "all"
