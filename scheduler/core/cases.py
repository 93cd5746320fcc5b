"""Scheduling cases: deciding one, and telling what came of it in the format of the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from scheduler.core.case_files import Case
from scheduler.core.cycle import run
from scheduler.core.load import open_session
from scheduler.core.plan import Evict, Hold, Plan, Start
from scheduler.core.session import Session, placement_of
from scheduler.core.snapshot import (
    Workload,
)
from scheduler.core.units import gpu_decimal
from scheduler.core.vocabulary import Rule

#: Workload id by replica id.
Owners = Mapping[int, int]


def answer_case(case: Case) -> dict[str, object]:
    """Decide ``case`` and return what came of it, in the format of the cases' answers."""
    session = open_session(case.snapshot, policy=case.policy, now_us=0, at_once=True)
    plan = run(session)
    names = {workload.id: workload.name for workload in case.snapshot.workloads}
    replicas = [(each.id, row.id) for row in case.snapshot.workloads for each in row.replicas]
    owners = {**dict(replicas), **session.new_owners}
    holds = {hold.workload_id: hold for hold in plan.holds}
    return {
        "case": case.name,
        "workloads": {
            workload.name: _state_of(session, workload, holds.get(workload.id))
            for workload in case.snapshot.workloads
        },
        "starts": _starts(plan, names, owners),
        "evictions": _evictions(plan, names, owners),
    }


def _state_of(session: Session, workload: Workload, hold: Hold | None) -> dict[str, object]:
    job = session.jobs.get(workload.id)
    helds = [] if job is None else job.held
    placements = [placement_of(session, held.place) for held in helds]
    return {
        "state": "running" if helds else "pending",
        "running_pods": len(helds),
        "placement": [{"node": each.node, "devices": list(each.devices)} for each in placements],
        "reason": None if hold is None or helds else _reason(session, hold),
    }


def _reason(session: Session, hold: Hold) -> dict[str, object]:
    told: dict[str, object] = {"code": hold.reason.value}
    if hold.level is not None and hold.queue_id is not None:
        queues = session.departments if hold.level == "department" else session.projects
        told["queue"] = queues[hold.queue_id].name
        told["level"] = hold.level.value
    told["resource"] = hold.resource
    amounts = {
        "limit": hold.limit,
        "quota": hold.quota,
        "protected" if hold.quota is not None else "allocated": hold.allocated,
        "requested": hold.requested,
        "free": hold.free,
        "largest": hold.largest,
    }
    for key, amount in amounts.items():
        if amount is not None:
            told[key] = _shown(amount, hold.resource)
    if hold.lacks:
        told["nodes"] = dict(hold.lacks)
    if hold.never:
        told["never"] = True
    return told


def _shown(amount: int, resource: str) -> object:
    """Return an amount as a JSON number: GPUs and CPUs with their places, memory in MiB."""
    if resource not in ("gpu", "cpu"):
        return amount
    return json.loads(format(gpu_decimal(amount), "f"))


def _starts(plan: Plan, names: Mapping[int, str], owners: Owners) -> list[dict[str, object]]:
    """Return what was started, what was moved included: it starts again in its new place."""
    told: list[dict[str, object]] = []
    for decision in plan.decisions:
        if isinstance(decision, Start):
            pods = len(decision.placements)
            told.append(_line(decision.step, names[decision.workload_id], pods))
        else:
            moved = _moved(decision, owners)
            told.extend(_line(decision.step, names[each], pods) for each, pods in moved.items())
    return told


def _line(step: int, workload: str, pods: int) -> dict[str, object]:
    return {"step": step, "workload": workload, "pods": pods}


def _evictions(plan: Plan, names: Mapping[int, str], owners: Owners) -> list[dict[str, object]]:
    told: list[dict[str, object]] = []
    for decision in plan.decisions:
        if not isinstance(decision, Evict):
            continue
        served = None if decision.served_id is None else names[decision.served_id]
        rows = [
            (decision.rule, victim.workload_id, len(victim.replica_ids), victim.whole)
            for victim in decision.victims
        ]
        for workload_id, pods in _moved(decision, owners).items():
            whole = pods == sum(1 for owner in owners.values() if owner == workload_id)
            rows.append((Rule.CONSOLIDATE, workload_id, pods, whole))
        told.extend(
            {
                "step": decision.step,
                "rule": rule.value,
                "for": served,
                "victim": names[workload_id],
                "pods": pods,
                "whole": whole,
            }
            for rule, workload_id, pods, whole in rows
        )
    return told


def _moved(decision: Evict, owners: Owners) -> dict[int, int]:
    """Return how many replicas of each workload were moved."""
    counts: dict[int, int] = {}
    for replica_id in decision.moves:
        workload_id = owners[replica_id]
        counts[workload_id] = counts.get(workload_id, 0) + 1
    return counts
