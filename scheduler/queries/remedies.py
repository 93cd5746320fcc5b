"""What would make a waiting workload run, as sentences. Each was tried on the scheduler's core."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler import models
from scheduler.core.explain import Remedy, Way, find_remedies
from scheduler.core.instants import to_us
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Level, Phase
from scheduler.queries import snapshots
from scheduler.queries.phrases import Phrase, phrase, strong
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyRow:
    """One change that would make the workload run. ``way`` is the core's word for it."""

    way: str
    text: Phrase
    #: It would interrupt other work.
    interrupts_others: bool
    #: How many other workloads; None for a reader who does not see the whole cluster.
    interrupts: int | None
    value: int | None


def list_remedies(
    *, visible: Visibility, workload_id: int, now: datetime
) -> tuple[RemedyRow, ...] | None:
    """Return what would make a workload run; empty where it runs or nothing small would help.

    Each costs up to some dozens of cycles of the core: ask for one workload at a time. None where there
    is no such workload for the reader.
    """
    workload = (
        models.Workload.objects.filter(
            visible.projects(prefix="project__"), pk=workload_id, deleted_at__isnull=True
        )
        .select_related("project__department")
        .first()
    )
    if workload is None:
        return None
    if Phase(workload.phase) is not Phase.PENDING or workload.stop_requested:
        return ()
    loaded = snapshots.load_pool(pool_id=workload.pool_id)
    if all(each.id != workload.pk for each in loaded.snapshot.workloads):
        return ()
    found = find_remedies(
        snapshot=loaded.snapshot,
        policy=loaded.policy,
        now_us=to_us(now),
        workload_id=workload.pk,
    )
    return tuple(
        RemedyRow(
            way=each.way.value,
            text=_in_words(each, workload, visible),
            interrupts_others=each.interrupts > 0,
            interrupts=each.interrupts if visible.cluster else None,
            value=each.value if _tells_value(each, workload, visible) else None,
        )
        for each in found
    )


def _tells_value(remedy: Remedy, workload: models.Workload, visible: Visibility) -> bool:
    """Test whether the figure is the reader's: that of a department tells what others hold of it."""
    return remedy.level is not Level.DEPARTMENT or visible.tells_of(workload.project.department_id)


def _in_words(remedy: Remedy, workload: models.Workload, visible: Visibility) -> Phrase:
    value = remedy.value if remedy.value is not None else 0
    match remedy.way:
        case Way.PREEMPTIBLE:
            return phrase(_("Let it be interrupted: it may then borrow."))
        case Way.REQUEST:
            return phrase(_("Ask for {gpu} of a GPU a replica."), gpu=strong(format_gpu(value)))
        case Way.DEVICES:
            text = ngettext("Ask for {n} GPU a replica.", "Ask for {n} GPUs a replica.", value)
            return phrase(text, n=strong(value))
        case Way.MINIMUM:
            text = ngettext("Ask for {n} replica at once.", "Ask for {n} replicas at once.", value)
            return phrase(text, n=strong(value))
        case Way.QUOTA | Way.LIMIT if not _tells_value(remedy, workload, visible):
            text = (
                _("Raise the guarantee of {queue}.")
                if remedy.way is Way.QUOTA
                else _("Raise the limit of {queue}.")
            )
            return phrase(text, queue=strong(_queue_name(remedy, workload)))
        case Way.QUOTA:
            return phrase(
                _("Raise the guarantee of {queue} to {gpu}."),
                queue=strong(_queue_name(remedy, workload)),
                gpu=strong(format_gpu(value)),
            )
        case Way.LIMIT:
            return phrase(
                _("Raise the limit of {queue} to {gpu}."),
                queue=strong(_queue_name(remedy, workload)),
                gpu=strong(format_gpu(value)),
            )
        case Way.END:
            return _end(remedy, visible)


def _queue_name(remedy: Remedy, workload: models.Workload) -> str:
    project = workload.project
    return project.department.name if remedy.level is Level.DEPARTMENT else project.name


def _end(remedy: Remedy, visible: Visibility) -> Phrase:
    other = models.Workload.objects.filter(
        visible.projects(prefix="project__"), pk=remedy.workload_id or 0
    ).first()
    if other is None:
        return phrase(_("It runs when work of another project ends."))
    return phrase(
        _("It runs when {workload} ends."), workload=strong(other.name, workload_id=other.pk)
    )
