"""What waits in a pool, in scheduling order, each with why and what would make it run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from scheduler.core.vocabulary import Level
from scheduler.queries import borrowing, reasons
from scheduler.queries.phrases import Phrase, Span, join, phrase, strong
from scheduler.queries.pool_state import PoolState, WorkloadState


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One waiting workload."""

    id: int
    name: str
    project_id: int
    project_name: str
    color: int
    request_mgpu: int
    gpu_memory_mib: int | None
    since: datetime
    why: Phrase
    runs_when: Phrase
    code: str
    never: bool


def make_waiting_rows(state: PoolState) -> tuple[WaitingRow, ...]:
    """Return the rows: first what is being made room for, then what is within its guarantee."""
    held = borrowing.held_by_project(state)
    pending = [w for w in state.workloads.values() if w.waits]

    def order(workload: WorkloadState) -> tuple[bool, bool, int, datetime, int]:
        project = state.projects[workload.project_id]
        borrows = held.get(project.id, 0) + workload.request_mgpu > project.quota_mgpu
        return (
            not workload.nominated,
            borrows,
            -workload.priority,
            workload.submitted_at,
            workload.id,
        )

    return tuple(_row(state, workload) for workload in sorted(pending, key=order))


def name_of(state: PoolState, workload: WorkloadState) -> Span:
    """Return "project / workload" as a linked name."""
    project = state.projects[workload.project_id]
    return strong(f"{project.name} / {workload.name}", workload_id=workload.id)


def mark_in_words(checkpoint: object) -> str:
    """Return a checkpoint mark as "epoch 21" or "step 18,400"; empty where there is none."""
    if not isinstance(checkpoint, dict):
        return ""
    if "epoch" in checkpoint:
        return _("epoch {n}").format(n=_number(checkpoint["epoch"]))
    if "step" in checkpoint:
        return _("step {n}").format(n=_number(checkpoint["step"]))
    return ""


def saved_in_words(workload: WorkloadState) -> Phrase:
    """Return "saved at epoch 21 (14:32:05)" for a workload with a checkpoint mark."""
    mark = mark_in_words(dict(workload.checkpoint))
    if not mark or workload.checkpoint_at is None:
        return ()
    at = timezone.localtime(workload.checkpoint_at)
    return phrase(
        _("{workload} saved at {mark} ({time})."),
        workload=strong(workload.name),
        mark=mark,
        time=f"{at:%H:%M:%S}",
    )


def why_it_waits(state: PoolState, workload: WorkloadState) -> reasons.Waiting:
    """Return the reason of one workload, with what is being vacated for it or was taken from it."""
    if workload.nominated:
        return reasons.Waiting(why=_vacating(state, workload), runs_when=(), code="Nominated")
    department_id = state.projects[workload.project_id].department_id
    found = reasons.why_waiting(
        code=workload.reason_code,
        numbers=workload.reason,
        queue=_queue_name(state, workload),
        told=department_id in state.open_department_ids or state.tells_others,
    )
    if not workload.interruptions:
        return found
    mark = mark_in_words(dict(workload.checkpoint))
    before = (
        phrase(_("Interrupted; resumes from {mark}."), mark=mark)
        if mark
        else phrase(_("Interrupted, and starts again by itself."))
    )
    return reasons.Waiting(
        why=join((before, found.why)),
        runs_when=found.runs_when,
        code=found.code,
        never=found.never,
    )


def _row(state: PoolState, workload: WorkloadState) -> WaitingRow:
    project = state.projects[workload.project_id]
    found = why_it_waits(state, workload)
    return WaitingRow(
        id=workload.id,
        name=workload.name,
        project_id=project.id,
        project_name=project.name,
        color=project.color,
        request_mgpu=workload.request_mgpu,
        gpu_memory_mib=workload.gpu_memory_mib,
        since=workload.phase_since,
        why=found.why,
        runs_when=found.runs_when,
        code=found.code,
        never=found.never,
    )


def _vacating(state: PoolState, workload: WorkloadState) -> Phrase:
    leaving = [r for r in state.replicas if r.vacated_for_id == workload.id]
    project_ids = dict.fromkeys(state.workloads[r.workload_id].project_id for r in leaving)
    names = join(
        [(strong(state.projects[project_id].name),) for project_id in project_ids],
        separator=_(", "),
    )
    if any(r.stop_code == "preempt" for r in leaving):
        return phrase(_("Takes the place of lower-priority work of its own project."))
    if not names:
        return phrase(_("Its place is being vacated."))
    return phrase(_("Taking its guarantee back from {projects}."), projects=names)


def _queue_name(state: PoolState, workload: WorkloadState) -> str:
    project = state.projects[workload.project_id]
    if workload.reason.get("level") != Level.DEPARTMENT:
        return project.name
    names = {department.id: department.name for department in state.departments}
    return names.get(project.department_id, project.name)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
