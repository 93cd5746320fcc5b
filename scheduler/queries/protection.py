"""What protects a service from others: three defences, each with figures, and which of them is missing."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from scheduler import models
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Kind, Level, ReplicaPhase
from scheduler.queries.phrases import Phrase, phrase, strong
from scheduler.queries.pool_state import PoolRow
from scheduler.queries.quota_tree import QuotaRow, QuotaTree, read_pool_tree
from scheduler.queries.visibility import SYSTEM, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Defence:
    """One defence. ``holds`` None: its figures are not the reader's to see."""

    name: str
    holds: bool | None
    text: Phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The three, and what the service needs: its fewest replicas, one where that is none."""

    defences: tuple[Defence, ...]
    need_mgpu: int

    @property
    def holding(self) -> int:
        """Return how many hold now."""
        return sum(each.holds is True for each in self.defences)


def read_protection(*, visible: Visibility, workload_id: int) -> Protection | None:
    """Return what protects a service now; None where there is none for the reader, or without GPU."""
    workload = (
        models.Workload.objects.filter(
            visible.projects(prefix="project__"), kind=Kind.INFERENCE, deleted_at=None
        )
        .select_related("project", "pool")
        .filter(pk=workload_id)
        .first()
    )
    if workload is None:
        return None
    need_mgpu = _need_mgpu(workload)
    tree = read_pool_tree(
        visible=SYSTEM, pool=PoolRow(id=workload.pool_id, name=workload.pool.name)
    )
    row = tree.row((Level.PROJECT, workload.project_id))
    if row is None or not need_mgpu:
        return None
    return Protection(
        defences=(
            _limits(tree, row, need_mgpu, is_known=visible.cluster),
            _guarantee(row, need_mgpu),
            _firmness(workload, row),
        ),
        need_mgpu=need_mgpu,
    )


def _need_mgpu(workload: models.Workload) -> int:
    replicas = max(1, workload.min_replicas)
    if workload.gpu_memory_mib is None:
        return replicas * workload.devices * workload.request_mgpu
    # A memory request counts by the card that it lands on.
    alive = models.Replica.objects.filter(workload=workload).exclude(phase=ReplicaPhase.ENDED)
    return replicas * max(alive.values_list("mgpu", flat=True), default=0)


def _limits(tree: QuotaTree, row: QuotaRow, need_mgpu: int, *, is_known: bool) -> Defence:
    """Whether the limits of all others leave what the service needs, whatever they ask for."""
    name = _("Limits of the others")
    if not is_known:
        told = _("Whether others can fill the pool is for those to see who see the whole cluster.")
        return Defence(name=name, holds=None, text=phrase(told))
    whole_mgpu = tree.capacity_mgpu
    departments = [each for each in tree.rows if each.level is Level.DEPARTMENT]
    others = sum(
        min(whole_mgpu, each.quota.effective_limit_mgpu)
        for each in departments
        if each.id != row.department_id
    )
    siblings = sum(
        min(whole_mgpu, each.quota.effective_limit_mgpu)
        for each in tree.siblings(row)
        if each.id != row.id
    )
    own = tree.row((Level.DEPARTMENT, row.department_id))
    if own is not None:
        siblings = min(siblings, own.quota.effective_limit_mgpu)
    most_mgpu = min(whole_mgpu, others + siblings)
    left_mgpu = whole_mgpu - most_mgpu
    holds = left_mgpu >= need_mgpu
    told = (
        _("All others may hold {most} of {whole} at most: {left} stay, and it needs {need}.")
        if holds
        else _(
            "All others may hold up to {most} of {whole}: only {left} are sure to stay, and it needs "
            "{need}. Lower limits of others would give it that."
        )
    )
    return Defence(
        name=name,
        holds=holds,
        text=phrase(
            told,
            most=strong(format_gpu(most_mgpu)),
            whole=format_gpu(whole_mgpu),
            left=strong(format_gpu(left_mgpu)),
            need=strong(format_gpu(need_mgpu)),
        ),
    )


def _guarantee(row: QuotaRow, need_mgpu: int) -> Defence:
    """Whether nothing that the project holds is borrowed: only that is taken back."""
    holds = row.held_mgpu <= row.quota.quota_mgpu >= need_mgpu
    if holds:
        told = _(
            "{project} holds {held} of the {quota} that it is guaranteed: nothing is borrowed, so no "
            "other project can take it back."
        )
    elif row.quota.quota_mgpu < need_mgpu:
        told = _(
            "{project} is guaranteed {quota}, and it needs {need}: others can take back what is "
            "borrowed. A larger guarantee would protect it."
        )
    else:
        told = _(
            "{project} holds {held}, more than the {quota} that it is guaranteed: others can take "
            "back what is borrowed."
        )
    return Defence(
        name=_("Its project's guarantee"),
        holds=holds,
        text=phrase(
            told,
            project=strong(row.name),
            held=strong(format_gpu(row.held_mgpu)),
            quota=strong(format_gpu(row.quota.quota_mgpu)),
            need=strong(format_gpu(need_mgpu)),
        ),
    )


def _firmness(workload: models.Workload, row: QuotaRow) -> Defence:
    """Whether it can be interrupted at all."""
    told = (
        _(
            "It may be interrupted: work of {project} with a priority above {priority} can take its "
            "place. Set “May be interrupted” to no."
        )
        if workload.preemptible
        else _(
            "It can not be interrupted by anyone; its priority is {priority}. It starts only within "
            "the guarantee."
        )
    )
    return Defence(
        name=_("Non-preemptible with very high priority"),
        holds=not workload.preemptible,
        text=phrase(told, project=strong(row.name), priority=strong(workload.priority)),
    )
