"""Emptying a node: who of what runs there is asked to leave now, and who is waited for.

Nothing new comes to such a node. What may be interrupted leaves at once and starts again elsewhere; of a
service a replica goes only when another answers in its place; all else is waited for, until a time after
which it leaves too, if that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scheduler.core.vocabulary import Kind


class AtDeadline(StrEnum):
    """What becomes of that which is still there at the time set."""

    WAIT = "wait"  # it is waited for on
    STOP = "stop"  # it is asked to leave, with its grace


class Stay(StrEnum):
    """Why something is still on a node that is emptied."""

    LEAVES = "leaves"  # it was asked to
    REPLACED = "replaced"  # another replica has to answer first
    WAITED_FOR = "waited_for"  # it may not be interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A workload with replicas on nodes that are emptied. Replicas that leave already are not in it."""

    workload_id: int
    kind: Kind
    preemptible: bool
    min_replicas: int
    #: Replicas on such nodes: those that run (a service's: answer), and those that still start.
    running: tuple[int, ...]
    starting: tuple[int, ...] = ()
    #: Replicas on other nodes.
    elsewhere: tuple[int, ...] = ()
    #: The time set is over, and what is left is to leave.
    is_due: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Replicas that are asked to leave. ``whole``: nothing of the workload runs on."""

    workload_id: int
    replica_ids: tuple[int, ...]
    whole: bool


def is_due(*, at_deadline: AtDeadline, deadline: datetime | None, now: datetime) -> bool:
    """Test whether what is still there is to leave, since the time set is over."""
    return at_deadline is AtDeadline.STOP and deadline is not None and now >= deadline


def who_leaves(residents: Iterable[Resident]) -> tuple[Leave, ...]:
    """Return who is asked to leave now, by workload. Services leave so only when the time is over."""
    found = []
    for resident in sorted(residents, key=lambda each: each.workload_id):
        if stay_of(resident) is not Stay.LEAVES:
            continue
        here = (*resident.running, *resident.starting)
        stays = len(resident.elsewhere)
        is_service = resident.kind is Kind.INFERENCE
        broken = not is_service and stays < resident.min_replicas
        leaving = (*here, *resident.elsewhere) if broken else here
        if leaving:
            whole = len(leaving) == len(here) + stays
            ids = tuple(sorted(leaving))
            found.append(Leave(workload_id=resident.workload_id, replica_ids=ids, whole=whole))
    return tuple(found)


def stay_of(resident: Resident) -> Stay:
    """Return what a resident is waited for."""
    if resident.is_due:
        return Stay.LEAVES
    if resident.kind is Kind.INFERENCE:
        return Stay.REPLACED
    return Stay.LEAVES if resident.preemptible else Stay.WAITED_FOR


def replaced(*, here: Iterable[int], ready_elsewhere: int, wanted: int) -> tuple[int, ...]:
    """Return which of a service's replicas that answer ``here`` may go: as many as are not needed.

    The oldest first. At no time do fewer answer than before, unless fewer are wanted.
    """
    answering = sorted(here)
    spare = ready_elsewhere + len(answering) - wanted
    return tuple(answering[: max(0, spare)])
