"""Rows that say what a plan did and why: decisions, who took part in them, events, reasons to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.core import plan as plans
from scheduler.core.vocabulary import Reason
from scheduler.queries.snapshots import Loaded


class DecisionStale(Exception):
    """A row that the decision touches has changed since it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What each step needs: the rows as read, the time, the cycle's number."""

    loaded: Loaded
    now: datetime
    cycle: int

    def lock(self, workload_id: int) -> models.Workload:
        """Return the workload as it is now, locked, if it is as it was when it was read."""
        seen = self.loaded.workloads[workload_id]
        current = (
            models.Workload.objects.select_for_update(of=("self",))
            .select_related("project")
            .filter(pk=workload_id, generation=seen.generation)
            .first()
        )
        if current is None:
            raise DecisionStale
        return current


def lost_s(workload: models.Workload, *, now: datetime) -> int:
    """Return what an interruption costs: the work since the last start or checkpoint mark, in seconds."""
    marks = [at for at in (workload.running_since, workload.checkpoint_at) if at is not None]
    return max(0, int((now - max(marks)).total_seconds())) if marks else 0


def record_holds(work: Work, plan: plans.Plan) -> int:
    """Write why each workload waits, where that has changed; one event a change of the code."""
    changed = 0
    for hold, workload_ids in plan.holds.groups:
        reason = hold.numbers()
        for workload_id in workload_ids:
            row = work.loaded.workloads[workload_id]
            if row.reason_code != hold.reason.value or row.reason != reason:
                changed += _record_hold(work, row, hold.reason, reason)
    return changed


def _record_hold(work: Work, row: models.Workload, code: Reason, reason: dict[str, object]) -> bool:
    """Write why one workload waits by now. False: it changed meanwhile, and the next tick tells."""
    fresh = models.Workload.objects.filter(pk=row.pk, generation=row.generation)
    if not fresh.update(reason_code=code.value, reason=reason):
        return False
    if row.reason_code != code.value or row.reason.get("queue") != reason.get("queue"):
        record = record_decision(work, "deny", row, reason)
        add_event(work, row, "waits", record, **reason)
    return True


def record_starving(loaded: Loaded, plan: plans.Plan, now: datetime) -> None:
    """Note since when those starve that lack only devices at the head of their queue."""
    starving = set(plan.starving_ids)
    begins = [
        w.pk for w in loaded.workloads.values() if w.pk in starving and w.starving_since is None
    ]
    ends = [
        w.pk
        for w in loaded.workloads.values()
        if w.pk not in starving and w.starving_since is not None
    ]
    if begins:
        models.Workload.objects.filter(pk__in=begins).update(starving_since=now)
    if ends:
        models.Workload.objects.filter(pk__in=ends).update(starving_since=None)


def record_decision(
    work: Work, verb: str, workload: models.Workload, params: Mapping[str, object]
) -> models.Decision:
    """Write that something was decided on ``workload``, and return the row."""
    return models.Decision.objects.create(
        at=work.now,
        cycle=work.cycle,
        verb=verb,
        workload=workload,
        project_id=workload.project_id,
        pool=work.loaded.pool,
        params=dict(params),
    )


def add_party(
    record: models.Decision,
    role: models.DecisionParty.Role,
    position: int,
    workload: models.Workload,
    params: Mapping[str, object],
) -> None:
    """Write that ``workload`` had a part in a decision."""
    models.DecisionParty.objects.create(
        decision=record,
        role=role,
        position=position,
        workload=workload,
        project_id=workload.project_id,
        params=dict(params),
    )


def add_event(
    work: Work,
    workload: models.Workload,
    event_code: str,
    record: models.Decision | None,
    /,
    **params: object,
) -> None:
    """Write an event of ``workload``, with the decision behind it, if any."""
    models.WorkloadEvent.objects.create(
        workload=workload, at=work.now, code=event_code, params=params, decision=record
    )
