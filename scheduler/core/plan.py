"""What the core decided: starts, evictions, nominations, and a reason for everything that waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler.core.snapshot import Placement
from scheduler.core.vocabulary import Level, Reason, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start new replicas of a workload, one for each placement."""

    step: int
    workload_id: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One workload that loses replicas, with why it was willing."""

    workload_id: int
    replica_ids: tuple[int, ...]
    #: True where the workload stops altogether.
    whole: bool
    freed_mgpu: int
    #: Its leaving takes its queue below its quota; taken because no other set worked.
    straddler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison that was made: ``have + request <= bound`` at a queue."""

    level: Level
    queue_id: int
    bound_mgpu: int
    have_mgpu: int
    request_mgpu: int
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Interrupt victims so that ``served_id`` can start at ``placements``; None for a loss.

    All victims of one decision stand in one ``Evict``. With it goes a nomination: the places are kept
    for the served workload until they are free.
    """

    step: int
    rule: Rule
    served_id: int | None
    victims: tuple[Victim, ...]
    placements: tuple[Placement, ...] = ()
    #: Replicas that are moved and run again at once (consolidation): replica id to its new place.
    moves: Mapping[int, Placement] = field(default_factory=dict)
    #: The checks that made the request entitled (reclaim) or allowed (preempt), in order.
    checks: tuple[Check, ...] = ()
    #: Other workloads that could have been taken, in the order in which they were less willing.
    spared_ids: tuple[int, ...] = ()
    #: Live: workloads whose start in this very cycle is taken back with it; they never ran.
    unstarted_ids: tuple[int, ...] = ()
    #: What was lacking on the devices before anything was taken.
    shortfall_mgpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a workload (or its further replicas) waits: a code and numbers, no sentence."""

    workload_id: int
    reason: Reason
    level: Level | None = None
    queue_id: int | None = None
    #: What is compared: "gpu", "cpu" or "memory"; amounts below are mGPU, milli-cores or MiB.
    resource: str = "gpu"
    limit: int | None = None
    quota: int | None = None
    allocated: int | None = None
    requested: int | None = None
    #: Over a department's limit although within the project's guarantee: what the department's projects
    #: are guaranteed in all, more than that limit.
    promised: int | None = None
    #: For lack of devices: unheld amount on matching nodes, and the largest request that would fit.
    free: int | None = None
    largest: int | None = None
    #: Nodes by what each lacks (values of ``Lack``).
    lacks: Mapping[str, int] = field(default_factory=dict)
    next_try_at_us: int | None = None
    #: For ``Reserved`` and ``Nominated``: whom the devices are kept for.
    kept_for_id: int | None = None
    #: It could not run even if the cluster were empty.
    never: bool = False

    def numbers(self) -> dict[str, object]:
        """Return code and numbers as plain values, without what is not set."""
        found: dict[str, object] = {"code": self.reason.value, "resource": self.resource}
        if self.level is not None:
            found["level"] = self.level.value
            found["queue"] = self.queue_id
        for name in _AMOUNTS:
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.kept_for_id is not None:
            found["kept_for"] = self.kept_for_id
        if self.lacks:
            found["lacks"] = dict(self.lacks)
        if self.never:
            found["never"] = True
        return found


_AMOUNTS = (
    "limit",
    "quota",
    "allocated",
    "requested",
    "promised",
    "free",
    "largest",
    "next_try_at_us",
)


class HoldGroup(NamedTuple):
    """Workloads that wait for one and the same reason. The one that ``hold`` names is any such."""

    hold: Hold
    workload_ids: tuple[int, ...]


class Holds:
    """Why everything that waits waits: a reason for each line of like requests, told for each workload.

    Iterating gives one ``Hold`` a workload. Who only needs what differs reads ``groups``.
    """

    __slots__ = ("groups",)

    def __init__(self, groups: Iterable[HoldGroup] = ()) -> None:
        self.groups = tuple(groups)

    def __len__(self) -> int:
        return sum(len(group.workload_ids) for group in self.groups)

    def __iter__(self) -> Iterator[Hold]:
        for group in self.groups:
            for workload_id in group.workload_ids:
                if workload_id == group.hold.workload_id:
                    yield group.hold
                else:
                    yield replace(group.hold, workload_id=workload_id)

    def __eq__(self, other: object) -> bool:
        """Test whether the same waits for the same reasons, in whatever order it is told."""
        if not isinstance(other, Holds):
            return NotImplemented
        return {each.workload_id: each for each in self} == {
            each.workload_id: each for each in other
        }

    __hash__ = None  # type: ignore[assignment]


Decision = Start | Evict


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One cycle's result. ``decisions`` in the order in which they were made."""

    decisions: tuple[Decision, ...]
    holds: Holds
    #: Fair share by project id and by department id, in mGPU, for showing.
    fair_share_projects: Mapping[int, int] = field(default_factory=dict)
    fair_share_departments: Mapping[int, int] = field(default_factory=dict)
    #: Nominations that no longer hold (the nominee is gone, or its devices can't come free).
    dropped_nominations: tuple[int, ...] = ()
    #: Workloads that lack only devices and stand at the head of their queue; starvation counts for them.
    starving_ids: tuple[int, ...] = ()
    #: Node reserved for a starving workload, by workload id.
    reservations: Mapping[int, str] = field(default_factory=dict)
