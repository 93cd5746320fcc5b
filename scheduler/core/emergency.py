"""Emergency controls as a rule: what may not start for a time, and until when nobody is interrupted.

A pause or a hold keeps back what is not running. A service that is in use goes on as it is, with its
scaling: it is served from, and its replicas are not the work that an emergency is about. A freeze says
that no running work is interrupted for another's sake: no reclaim, no preempt, no move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.snapshot import KeptBack
from scheduler.core.vocabulary import Kind, Level, Phase, Reason


class ControlKind(StrEnum):
    """What a control does."""

    PAUSE = "pause"  # nothing of a scope starts
    FREEZE = "freeze"  # nobody is interrupted
    HOLD = "hold"  # one workload does not start


#: Phases of a service in use.
_SERVING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.DEGRADED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One control until its end. A pause with neither department nor project is the cluster's."""

    kind: ControlKind
    until_us: int
    department_id: int | None = None
    project_id: int | None = None
    workload_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What of a workload decides whether a control is about it."""

    workload_id: int
    project_id: int
    department_id: int
    kind: Kind
    phase: Phase


def keeps_back(control: Control, subject: Subject) -> bool:
    """Test whether ``control`` keeps starts of the workload back."""
    if subject.kind is Kind.INFERENCE and subject.phase in _SERVING:
        return False
    if control.kind is ControlKind.HOLD:
        return control.workload_id == subject.workload_id
    if control.kind is not ControlKind.PAUSE:
        return False
    if control.project_id is not None:
        return control.project_id == subject.project_id
    return control.department_id in (None, subject.department_id)


def kept_back(controls: Iterable[Control], subject: Subject) -> KeptBack | None:
    """Return what keeps starts of the workload back: of several controls the one that ends last."""
    found = [each for each in controls if keeps_back(each, subject)]
    if not found:
        return None
    last = max(found, key=lambda each: (each.until_us, each.kind, each.project_id or 0))
    if last.kind is ControlKind.HOLD:
        return KeptBack(until_us=last.until_us, reason=Reason.HELD_BACK)
    queue = (
        (Level.PROJECT, last.project_id)
        if last.project_id is not None
        else (None if last.department_id is None else Level.DEPARTMENT, last.department_id)
    )
    return KeptBack(
        until_us=last.until_us, reason=Reason.STARTS_PAUSED, level=queue[0], queue_id=queue[1]
    )


def frozen_until_us(controls: Iterable[Control]) -> int | None:
    """Return until when nobody is interrupted, None where there is no freeze."""
    return max(
        (each.until_us for each in controls if each.kind is ControlKind.FREEZE), default=None
    )
