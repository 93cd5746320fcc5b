"""What waits: requests, put into lines. All requests of one line are alike but for age and name, so
what is found out about the first holds for all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scheduler.core.jobs import Job
from scheduler.core.queues import Amount, Queue
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.snapshot import Workload
from scheduler.core.vocabulary import Kind

#: (first submission, name, id, workload): the order inside a line.
Entry = tuple[int, str, int, Workload]
#: Where a request stands inside its project: priority, further, first submission, name, id.
LineKey = tuple[int, bool, int, str, int]
_Alike = tuple[int, Shape, bool, int, int, bool]


@dataclass(slots=True, kw_only=True)
class Request:
    """``count`` replicas that are admitted together: a gang's minimum, or a single one."""

    workload: Workload
    project: Queue
    shape: Shape
    count: int
    #: A replica above the minimum.
    further: bool = False

    @property
    def amount(self) -> Amount:
        """Return what it counts as in all, on the cheapest matching card."""
        return amount_of(self.shape, self.count)

    def amount_at(self, mgpu: int) -> Amount:
        """Return what it counts as where its places count for ``mgpu``."""
        shape = self.shape
        return Amount(mgpu, shape.cpu_milli * self.count, shape.memory_mib * self.count)


def amount_of(shape: Shape, count: int) -> Amount:
    """Return what ``count`` replicas of ``shape`` count as on the cheapest matching card."""
    return Amount(shape.replica_mgpu * count, shape.cpu_milli * count, shape.memory_mib * count)


@dataclass(slots=True, eq=False, kw_only=True)
class Line:
    """Waiting requests of one project that differ only in age and name, oldest first."""

    project: Queue
    shape: Shape
    preemptible: bool
    priority: int
    count: int
    further: bool
    amount: Amount
    #: What it needs places for: a shape, and how many replicas.
    group: tuple[Shape, int]
    entries: list[Entry] = field(default_factory=list)
    first: int = 0
    #: Tried without success; stays so until something changes that could alter the outcome.
    aside: bool = False
    #: The session's count of releases when it last failed to start.
    failed_at_release: int = -1
    #: Nothing that could be interrupted makes room for it, or it fails check 2: both for the whole cycle.
    is_lost: bool = False
    #: The ids of those that wait here, where they were asked for since the last change.
    _ids: tuple[int, ...] | None = None
    #: Where the first request stands, where that was asked for since the last change.
    _head_key: LineKey | None = None

    def __len__(self) -> int:
        return len(self.entries) - self.first

    @property
    def head_key(self) -> LineKey:
        """Return where the first request stands inside the project."""
        if self._head_key is None:
            self._head_key = self.key_at(self.first)
        return self._head_key

    @property
    def first_id(self) -> int:
        """Return the id of the workload that waits here first."""
        return self.entries[self.first][2]

    def key_at(self, at: int) -> LineKey:
        """Return where the request at ``at`` stands inside the project."""
        submitted, name, workload_id, _ = self.entries[at]
        return (-self.priority, self.further, submitted, name, workload_id)

    def head(self) -> Request:
        """Return the first request."""
        return Request(
            workload=self.entries[self.first][3],
            project=self.project,
            shape=self.shape,
            count=self.count,
            further=self.further,
        )

    def waiting(self) -> Iterator[Workload]:
        """Yield the workloads that wait here, in order."""
        for at in range(self.first, len(self.entries)):
            yield self.entries[at][3]

    def waiting_ids(self) -> tuple[int, ...]:
        """Return the ids of the workloads that wait here, in order."""
        if self._ids is None:
            self._ids = tuple([entry[2] for entry in self.entries[self.first :]])
        return self._ids

    def begin_cycle(self) -> None:
        """Forget what the last cycle found out, and who started in it."""
        self.aside = self.is_lost = False
        self.failed_at_release = -1
        if self.first:
            del self.entries[: self.first]
            self.first = 0

    def _note_change(self) -> None:
        self._ids = self._head_key = None
        self.project.line_changes += 1

    def put_in_order(self) -> None:
        """Sort the requests, after some were added at the end."""
        self.entries.sort()
        self._note_change()

    def insert(self, workload: Workload) -> None:
        """Add a request where its age puts it."""
        insort(self.entries, entry_of(workload), lo=self.first)
        self._note_change()

    def take_head(self) -> None:
        """Take the first request out: it started."""
        self.first += 1
        self._note_change()

    def withdraw(self, workload: Workload) -> None:
        """Take ``workload``'s request out, wherever it stands."""
        at = bisect_left(self.entries, entry_of(workload), lo=self.first)
        del self.entries[at]
        self._note_change()


def entry_of(workload: Workload) -> Entry:
    """Return the entry of ``workload``; the id decides before the workload itself is compared."""
    return (workload.submitted_at_us, workload.name, workload.id, workload)


class Waiting:
    """All lines, by project."""

    __slots__ = ("_by_key", "_line_of", "_paused", "_session", "groups", "lines_of")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.lines_of: dict[int, list[Line]] = {each: [] for each in session.projects}
        #: Lines that need the same places: by shape and replicas.
        self.groups: dict[tuple[Shape, int], list[Line]] = {}
        self._by_key: dict[_Alike, Line] = {}
        self._line_of: dict[int, Line] = {}
        #: Those that pause after a start that failed or are kept back, in no line.
        self._paused: set[int] = set()
        self.enter_all(session.facts.workloads.values())

    def __iter__(self) -> Iterator[Line]:
        for lines in self.lines_of.values():
            yield from lines

    def line_of(self, workload_id: int) -> Line | None:
        """Return the line in which a victim or grown workload stands, if any."""
        return self._line_of.get(workload_id)

    def enter_all(self, workloads: Iterable[Workload]) -> None:
        """Put the next requests of ``workloads``, where they have some, into their lines."""
        now_us = self._session.now_us
        touched = set()
        for workload in workloads:
            if workload.may_pause and self._session.facts.is_paused(workload, now_us):
                self._paused.add(workload.id)
                continue
            line = self.find_line(workload)
            if line is not None:
                line.entries.append(entry_of(workload))
                self._line_of[workload.id] = line
                touched.add(line)
        for line in touched:
            line.put_in_order()

    def begin_cycle(self) -> None:
        """Forget what the last cycle found out about its lines; let those in whose pause is over."""
        for line in self:
            line.begin_cycle()
        facts, now_us = self._session.facts, self._session.now_us
        over = [
            workload
            for workload_id in self._paused
            if (workload := facts.workloads.get(workload_id)) is not None
            and not facts.is_paused(workload, now_us)
        ]
        self._paused.difference_update([workload.id for workload in over])
        self.enter_all(over)

    def find_line(self, workload: Workload) -> Line | None:
        """Return the line of ``workload``'s next request, made where new; None: nothing is asked."""
        job = self._session.jobs.get(workload.id)
        asked = next_request(workload, job)
        if asked is None:
            return None
        count, further = asked
        shape = self._session.shapes.of(workload)
        key = (
            workload.project_id,
            shape,
            workload.preemptible,
            workload.priority,
            count,
            further,
        )
        line = self._by_key.get(key)
        if line is None:
            group = (shape, count)
            line = self._by_key[key] = Line(
                project=self._session.projects[workload.project_id],
                shape=shape,
                preemptible=workload.preemptible,
                priority=workload.priority,
                count=count,
                further=further,
                amount=amount_of(shape, count),
                group=group,
            )
            self.lines_of[workload.project_id].append(line)
            self.groups.setdefault(group, []).append(line)
        return line

    def enter(self, workload: Workload) -> None:
        """Put ``workload``'s next request, if it has one, into its line; not while it pauses."""
        if workload.may_pause and self._session.facts.is_paused(workload, self._session.now_us):
            self._paused.add(workload.id)
            return
        line = self.find_line(workload)
        if line is not None:
            line.insert(workload)
            self._line_of[workload.id] = line

    def leave(self, workload: Workload) -> None:
        """Take ``workload``'s waiting request out, if it has one."""
        line = self._line_of.pop(workload.id, None)
        if line is not None:
            line.withdraw(workload)
        self._paused.discard(workload.id)

    def forget(self, workload: Workload) -> None:
        """Note that ``workload`` left its line by starting."""
        self._line_of.pop(workload.id, None)


def next_request(workload: Workload, job: Job | None) -> tuple[int, bool] | None:
    """Return (replicas, further) of what ``workload`` asks for next, or None.

    While places are kept for it, it asks for nothing more: a further replica may not run before the
    minimum does.
    """
    if job is not None and job.kept:
        return None
    if workload.kind is Kind.INFERENCE:
        live = 0 if job is None else job.live
        if live >= workload.max_replicas:
            return None
        return 1, live >= workload.min_replicas
    if job is None or not job.live:
        if job is not None and job.leaving:
            return None
        return max(1, workload.min_replicas), False
    if job.live < job.minimum or job.live >= job.wanted:
        return None
    return 1, True
