"""Start what fits without disturbing anyone."""

from __future__ import annotations

from scheduler.core import quota
from scheduler.core.placement import Place
from scheduler.core.session import Session
from scheduler.core.waiting import Request


def find_places(session: Session, request: Request) -> list[Place] | None:
    """Take places for ``request`` in the start books if checks 1 to 3 hold, else return None."""
    preemptible = request.workload.preemptible
    if not quota.passes(project=request.project, amount=request.amount, preemptible=preemptible):
        return None
    return session.placer(session.start).place_all(
        request.shape, request.count, budget_mgpu=budget_of(request)
    )


def budget_of(request: Request) -> int | None:
    """Return what the places may count for in all; only memory requests count by where they land."""
    if not request.shape.gpu_memory_mib:
        return None
    return quota.room_mgpu(project=request.project, preemptible=request.workload.preemptible)
