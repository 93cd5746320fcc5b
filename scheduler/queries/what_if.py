"""What submitting a workload, or draining a node, would do now: the scheduler itself decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from scheduler import models
from scheduler.core import emergency
from scheduler.core import preview as core
from scheduler.core.instants import to_us
from scheduler.core.plan import Start
from scheduler.core.preview import Preview
from scheduler.core.snapshot import KeptBack, Snapshot, Workload
from scheduler.core.vocabulary import Phase
from scheduler.queries import decision_words, reasons, snapshots
from scheduler.queries.quota_preview import Loss, Seen, Touched
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility


class Outcome(StrEnum):
    """What would become of a submission."""

    STARTS = "starts"  # on free devices, within the guarantee
    BORROWS = "borrows"  # on free devices, above the guarantee
    TAKES = "takes"  # after others gave way
    WAITS = "waits"
    NEVER = "never"  # not even in an empty cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPreview:
    """What the next cycle would do with a submission. ``replicas``: how many would run."""

    outcome: Outcome
    replicas: int
    place: str
    borrowed_mgpu: int
    losses: tuple[Loss, ...]
    #: Work outside the reader's scopes would be interrupted too.
    touches_others: bool
    reason: reasons.Waiting | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPreview:
    """What draining a node would do: who would go on elsewhere, who would wait, whom that interrupts."""

    moves: tuple[Touched, ...]
    waits: tuple[Touched, ...]
    #: Work on other nodes that would be interrupted for work of this one.
    losses: tuple[Loss, ...]
    touches_others: bool


def preview_submission(
    *, visible: Visibility, pool_id: int, asked: Workload, now: datetime
) -> SubmissionPreview | None:
    """Return what the scheduler would do with ``asked``, whose id no row has.

    None where the project or the pool is not there for the reader.
    """
    projects = models.Project.objects.filter(visible.projects(), deleted_at=None)
    project = projects.filter(pk=asked.project_id).select_related("department").first()
    if project is None or not models.NodePool.objects.filter(pk=pool_id).exists():
        return None
    loaded = snapshots.load_pool(pool_id=pool_id)
    asked = replace(asked, kept_back=_kept_back(loaded, asked, project))
    at = to_us(now)
    before = core.preview(snapshot=loaded.snapshot, policy=loaded.policy, now_us=at)
    after = core.preview(
        snapshot=core.with_workload(loaded.snapshot, asked), policy=loaded.policy, now_us=at
    )
    difference = core.compare(before=before, after=after)
    seen = Seen(visible=visible, rows=loaded.workloads, now=now)
    hold = next((each for each in after.holds if each.workload_id == asked.id), None)
    reason = None
    if hold is not None and not after.runs(asked.id):
        reason = why_for(
            visible=visible, code=hold.reason.value, numbers=hold.numbers(), project=project
        )
    borrowed_mgpu = _borrowed_mgpu(loaded.snapshot, asked, after)
    if after.runs(asked.id):
        outcome = Outcome.BORROWS if borrowed_mgpu else Outcome.STARTS
        outcome = Outcome.TAKES if difference.interruptions else outcome
    else:
        outcome = Outcome.NEVER if hold is not None and hold.never else Outcome.WAITS
    return SubmissionPreview(
        outcome=outcome,
        replicas=after.replicas.get(asked.id, 0),
        place=_place(after, asked.id),
        borrowed_mgpu=borrowed_mgpu,
        losses=seen.losses(difference.interruptions),
        touches_others=seen.hides([each.workload_id for each in difference.interruptions]),
        reason=reason,
    )


def _kept_back(
    loaded: snapshots.Loaded, asked: Workload, project: models.Project
) -> KeptBack | None:
    """Return what would keep a submission back: an emergency control over its scope."""
    subject = emergency.Subject(
        workload_id=asked.id,
        project_id=project.pk,
        department_id=project.department_id,
        kind=asked.kind,
        phase=Phase.PENDING,
    )
    return emergency.kept_back(loaded.controls, subject)


def preview_drain(*, visible: Visibility, node_id: int, now: datetime) -> DrainPreview | None:
    """Return what draining a node would do with the work on it; None: no such node."""
    node = models.Node.objects.filter(pk=node_id).first()
    if node is None:
        return None
    loaded = snapshots.load_pool(pool_id=node.pool_id)
    at = to_us(now)
    before = core.preview(snapshot=loaded.snapshot, policy=loaded.policy, now_us=at)
    changed = core.without_node(loaded.snapshot, node.name)
    after = core.preview(snapshot=changed, policy=loaded.policy, now_us=at)
    difference = core.compare(before=before, after=after)
    seen = Seen(visible=visible, rows=loaded.workloads, now=now)
    here = [
        each.id
        for each in loaded.snapshot.workloads
        if any(replica.placement.node == node.name for replica in each.replicas)
    ]
    others = [each for each in difference.interruptions if each.workload_id not in here]
    return DrainPreview(
        moves=seen.all(each for each in here if after.runs(each)),
        waits=seen.all(each for each in here if not after.runs(each)),
        losses=seen.losses(others),
        touches_others=seen.hides([*here, *(each.workload_id for each in others)]),
    )


def _place(after: Preview, workload_id: int) -> str:
    placements = [
        placement
        for each in after.plan.decisions
        if isinstance(each, Start) and each.workload_id == workload_id
        for placement in each.placements
    ]
    return "; ".join(
        decision_words.place_name(each.node, list(each.devices)) for each in placements
    )


def _borrowed_mgpu(snapshot: Snapshot, asked: Workload, after: Preview) -> int:
    """Return how far above its guarantee the project would be with the asked replicas, by their part."""
    own_mgpu = asked.request.devices * asked.request.request_mgpu * after.replicas.get(asked.id, 0)
    held_mgpu = own_mgpu + sum(
        each.request.devices * each.request.request_mgpu * after.replicas.get(each.id, 0)
        for each in snapshot.workloads
        if each.project_id == asked.project_id
    )
    quota = next(each.quota for each in snapshot.projects if each.id == asked.project_id)
    return max(0, min(own_mgpu, held_mgpu - quota.quota_mgpu))
