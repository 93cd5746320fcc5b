"""What saving other quotas would do: the scheduler itself decides, on the state of this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.core import preview as core
from scheduler.core.instants import to_us
from scheduler.core.outcome import carry_out
from scheduler.core.preview import Interruption, Preview
from scheduler.core.snapshot import QueueQuota, Snapshot, Workload
from scheduler.core.vocabulary import Kind, Rule
from scheduler.queries import snapshots
from scheduler.queries.quota_map import QuotaMap, map_of_change
from scheduler.queries.quota_tree import Key, QuotaTree
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One workload that the change would start, interrupt, or never let run."""

    id: int
    name: str
    project_name: str
    color: int
    kind: Kind
    #: What it holds now, or asks for where it waits.
    mgpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One workload that would be interrupted. Without a checkpoint it loses all it did."""

    workload: Touched
    rule: Rule
    served: Touched | None
    ran_s: int
    checkpoint_age_s: int | None

    @property
    def lost_s(self) -> int:
        """Return how much work would be lost."""
        age_s = self.checkpoint_age_s
        return self.ran_s if age_s is None else min(age_s, self.ran_s)

    @property
    def loses_work(self) -> bool:
        """Test whether anything would be lost that no checkpoint holds."""
        return self.workload.kind is not Kind.INFERENCE and self.checkpoint_age_s is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowing:
    """How much a changed unit holds above its guarantee, before and after the edit."""

    name: str
    before_mgpu: int
    after_mgpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPreview:
    """What would come of saving a draft, as far as its reader may see it."""

    at: datetime
    losses: tuple[Loss, ...]
    starts: tuple[Touched, ...]
    #: Waiting work that would be within its guarantee, and was not.
    entitled: tuple[Touched, ...]
    #: Waiting work that could not run even in an empty cluster, and could before.
    never: tuple[Touched, ...]
    borrowing: tuple[Borrowing, ...]
    #: The nodes on which anything would change, as they are and as they would be.
    map: QuotaMap
    #: Work outside the reader's scopes would be interrupted or started too.
    touches_others: bool

    @property
    def loses_work(self) -> bool:
        """Test whether saving costs anybody work that no checkpoint holds."""
        return any(loss.loses_work for loss in self.losses)

    @property
    def changes_nothing(self) -> bool:
        """Test whether the scheduler would do the same with and without the change."""
        return not (
            self.losses or self.starts or self.entitled or self.never or self.touches_others
        )


def preview_quotas(
    *, visible: Visibility, tree: QuotaTree, wanted: Mapping[Key, QueueQuota], now: datetime
) -> QuotaPreview:
    """Return what the scheduler would do with ``wanted`` that it would not do as things are."""
    return _Preview(visible=visible, tree=tree, now=now).of_change(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPreviews:
    """What a window's two switches would do, the second on the state that the first leaves."""

    begin: QuotaPreview
    end: QuotaPreview


def preview_switches(
    *, visible: Visibility, tree: QuotaTree, wanted: Mapping[Key, QueueQuota], now: datetime
) -> SwitchPreviews:
    """Return what would come of a window with ``wanted`` that began now, and then of its end."""
    own = _Preview(visible=visible, tree=tree, now=now)
    begin = own.of_change(wanted)
    own.carry_out()
    back = {key: row.quota for key in wanted if (row := tree.row(key)) is not None}
    return SwitchPreviews(begin=begin, end=own.of_change(back))


class _Preview:
    """One pool as it is, to try changes on; a change can be carried out, and another tried on that."""

    def __init__(self, *, visible: Visibility, tree: QuotaTree, now: datetime) -> None:
        loaded = snapshots.load_pool(pool_id=tree.pool.id)
        self._policy = loaded.policy
        self._snapshot = loaded.snapshot
        self._changed = loaded.snapshot
        self._tree = tree
        self._now = now
        self._show_others = visible.cluster or models.Cluster.objects.one().show_others_in_use
        self._seen = Seen(visible=visible, rows=loaded.workloads, now=now)
        self._after: Preview | None = None

    def of_change(self, wanted: Mapping[Key, QueueQuota]) -> QuotaPreview:
        """Return what would come of other quotas."""
        self._changed = changed_snapshot(self._snapshot, wanted)
        before = self._decide(self._snapshot)
        after = self._after = self._decide(self._changed)
        difference = core.compare(before=before, after=after)
        waiting = [each.id for each in self._snapshot.workloads if not each.replicas]
        stopped = {each.workload_id for each in difference.interruptions}
        entitled = _entitled(self._changed, waiting) - _entitled(self._snapshot, waiting)
        never = _never(after) - _never(before)
        return QuotaPreview(
            at=self._now,
            losses=self._seen.losses(difference.interruptions),
            starts=self._seen.all(each for each in difference.starts if each not in stopped),
            entitled=self._seen.all(sorted(entitled)),
            never=self._seen.all(sorted(never)),
            borrowing=_borrowing(self._tree, wanted),
            map=map_of_change(
                before=self._carried_out(self._snapshot, before),
                after=self._carried_out(self._changed, after),
                named=self._seen.named,
                show_others=self._show_others,
            ),
            touches_others=self._seen.hides([*difference.starts, *stopped]),
        )

    def carry_out(self) -> None:
        """Take the last change as made: what it starts runs, what it interrupts waits."""
        assert self._after is not None
        self._snapshot = self._carried_out(self._changed, self._after)

    def _carried_out(self, snapshot: Snapshot, foreseen: Preview) -> Snapshot:
        return carry_out(snapshot, foreseen.plan, now_us=to_us(self._now))

    def _decide(self, snapshot: Snapshot) -> Preview:
        return core.preview(snapshot=snapshot, policy=self._policy, now_us=to_us(self._now))


def changed_snapshot(snapshot: Snapshot, wanted: Mapping[Key, QueueQuota]) -> Snapshot:
    """Return the snapshot as it would be with other quotas."""
    for (level, queue_id), quota in wanted.items():
        snapshot = core.with_quota(snapshot, level=level, queue_id=queue_id, quota=quota)
    return snapshot


class Seen:
    """Workloads as a reader may see them: others have no name here."""

    def __init__(
        self, *, visible: Visibility, rows: Mapping[int, models.Workload], now: datetime
    ) -> None:
        projects = models.Project.objects.filter(visible.projects())
        self._projects = {project.pk: project for project in projects}
        self._rows = rows
        self._now = now

    def find(self, workload_id: int) -> Touched | None:
        """Return the workload, or None where it is not there for the reader, or only asked about."""
        row = self._rows.get(workload_id)
        project = self._projects.get(row.project_id) if row is not None else None
        if row is None or project is None:
            return None
        return Touched(
            id=row.pk,
            name=row.name,
            project_name=project.name,
            color=project.color,
            kind=Kind(row.kind),
            mgpu=row.request_mgpu * row.devices * max(1, row.min_replicas),
        )

    def named(self, workload_id: int) -> tuple[str, str, int] | None:
        """Return name, project and color of a workload that is there for the reader."""
        found = self.find(workload_id)
        return None if found is None else (found.name, found.project_name, found.color)

    def all(self, ids: object) -> tuple[Touched, ...]:
        """Return those of the workloads that are there for the reader."""
        found = (self.find(each) for each in ids)  # type: ignore[attr-defined]
        return tuple(each for each in found if each is not None)

    def hides(self, ids: list[int]) -> bool:
        """Test whether any of the workloads is not there for the reader."""
        return any(self._rows[each].project_id not in self._projects for each in ids)

    def loss(self, interruption: Interruption) -> Loss | None:
        """Return what an interruption costs."""
        workload = self.find(interruption.workload_id)
        if workload is None:
            return None
        row = self._rows[interruption.workload_id]
        served = interruption.served_id
        return Loss(
            workload=workload,
            rule=interruption.rule,
            served=None if served is None else self.find(served),
            ran_s=self._since(row.running_since) or 0,
            checkpoint_age_s=self._since(row.checkpoint_at),
        )

    def losses(self, interruptions: Iterable[Interruption]) -> tuple[Loss, ...]:
        """Return what those of the interruptions cost that are there for the reader."""
        found = (self.loss(each) for each in interruptions)
        return tuple(each for each in found if each is not None)

    def _since(self, at: datetime | None) -> int | None:
        return None if at is None else max(0, int((self._now - at).total_seconds()))


def _entitled(snapshot: Snapshot, waiting: list[int]) -> set[int]:
    """Return the waiting workloads that their project guarantees room for beside what it holds."""
    held: dict[int, int] = {}
    for workload in snapshot.workloads:
        mgpu = workload.request.devices * workload.request.request_mgpu * len(workload.replicas)
        held[workload.project_id] = held.get(workload.project_id, 0) + mgpu
    room = {
        project.id: project.quota.quota_mgpu - held.get(project.id, 0)
        for project in snapshot.projects
    }
    return {
        workload.id
        for workload in snapshot.workloads
        if workload.id in waiting and 0 < _asked_mgpu(workload) <= room[workload.project_id]
    }


def _asked_mgpu(workload: Workload) -> int:
    request = workload.request
    return request.devices * request.request_mgpu * max(1, workload.min_replicas)


def _never(preview: Preview) -> set[int]:
    return {hold.workload_id for hold in preview.holds if hold.never}


def _borrowing(tree: QuotaTree, wanted: Mapping[Key, QueueQuota]) -> tuple[Borrowing, ...]:
    found = []
    for row in tree.rows:
        if row.key not in wanted:
            continue
        before = max(0, row.held_mgpu - row.quota.quota_mgpu)
        after = max(0, row.held_mgpu - wanted[row.key].quota_mgpu)
        if before != after:
            found.append(Borrowing(name=row.name, before_mgpu=before, after_mgpu=after))
    return tuple(found)
