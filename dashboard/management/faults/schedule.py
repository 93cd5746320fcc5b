"""What goes wrong when: drawn from a seed, so that a run can be had again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

#: Seconds from one fault to the next, in the mean; and before the first and after the last.
EVERY_S, QUIET_S = 12.0, 5.0


class Kind(StrEnum):
    """A way in which something goes wrong."""

    WORKER_KILLED = "worker killed"
    WORKER_PART_KILLED = "one process of the worker killed"
    WORKER_FROZEN = "worker frozen"
    BEAT_KILLED = "beat killed"
    SECOND_BEAT = "second beat"
    WEB_KILLED = "web and gateway killed"
    REDIS_KILLED = "Redis killed"
    REDIS_FROZEN = "Redis frozen"
    POSTGRES_KILLED = "PostgreSQL killed"
    ALL_KILLED = "all of the product killed at once"
    RAYLET_KILLED = "raylet of a node killed"
    AGENT_KILLED = "agent of a node killed"
    NODE_KILLED = "all processes of a node killed at once"
    SUPERVISOR_KILLED = "supervisor of a replica killed"
    WORK_KILLED = "work killed from outside"
    DISK_FULL = "disk full"
    CLOCK_AHEAD = "clock steps ahead"
    CLOCK_BACK = "clock steps back"


#: How often each comes, beside the others.
WEIGHTS = {
    Kind.WORKER_KILLED: 4,
    Kind.WORKER_PART_KILLED: 3,
    Kind.WORKER_FROZEN: 2,
    Kind.BEAT_KILLED: 2,
    Kind.SECOND_BEAT: 1,
    Kind.WEB_KILLED: 3,
    Kind.REDIS_KILLED: 3,
    Kind.REDIS_FROZEN: 2,
    Kind.POSTGRES_KILLED: 3,
    Kind.ALL_KILLED: 1,
    Kind.RAYLET_KILLED: 3,
    Kind.AGENT_KILLED: 2,
    Kind.NODE_KILLED: 1,
    Kind.SUPERVISOR_KILLED: 3,
    Kind.WORK_KILLED: 2,
    Kind.DISK_FULL: 2,
    Kind.CLOCK_AHEAD: 2,
    Kind.CLOCK_BACK: 2,
}
#: Those that last, and for how long: frozen, full, twice there, away, or the step in seconds.
LASTING_S = {
    Kind.WORKER_FROZEN: (3.0, 20.0),
    Kind.SECOND_BEAT: (5.0, 10.0),
    Kind.REDIS_FROZEN: (1.0, 8.0),
    Kind.POSTGRES_KILLED: (0.0, 4.0),
    Kind.NODE_KILLED: (5.0, 60.0),
    Kind.DISK_FULL: (3.0, 8.0),
    Kind.CLOCK_AHEAD: (20.0, 120.0),
    Kind.CLOCK_BACK: (20.0, 120.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: when after the start of the load, what, for how long, and whom of several it hits."""

    at_s: float
    kind: Kind
    for_s: float
    choice: float  # 0 to 1: the place in the list of those it may hit


def draw(*, seed: int, seconds: float, every_s: float = EVERY_S) -> tuple[Fault, ...]:
    """Return the faults of a run. Each kind comes once before any comes again."""
    random = Random(seed)
    faults: list[Fault] = []
    bag: list[Kind] = []
    at_s = QUIET_S
    while at_s < seconds - QUIET_S:
        if not bag:
            bag = _bag(random, is_first=not faults)
        kind = bag.pop()
        least_s, most_s = LASTING_S.get(kind, (0.0, 0.0))
        fault = Fault(
            at_s=round(at_s, 1),
            kind=kind,
            for_s=round(random.uniform(least_s, most_s), 1),
            choice=random.random(),
        )
        faults.append(fault)
        at_s += random.uniform(0.5, 1.5) * every_s
    return tuple(faults)


def _bag(random: Random, *, is_first: bool) -> list[Kind]:
    """Return kinds in the order from the last to the first: at first one of each, then by weight."""
    kinds = [kind for kind in Kind for _ in range(1 if is_first else WEIGHTS[kind])]
    random.shuffle(kinds)
    return kinds
