"""Order: which department, which project in it, which of its waiting requests is tried next.

Ratios are compared exactly: both sides are scaled to integers so finely that unequal ones stay unequal.
"""

from __future__ import annotations

from scheduler.core.quota import passes_guarantees
from scheduler.core.session import Queue, Session
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.waiting import Line, Waiting

#: Two unequal fractions of amounts below 2**53 differ by more than 2**-106.
_SCALE_BITS = 128

QueueKey = tuple[int, int, int, int, int, str, int]


def ratio(numerator: int, denominator: int) -> int:
    """Return a whole number that orders fractions exactly. The denominator is positive."""
    return (numerator << _SCALE_BITS) // denominator


def queue_key(queue: Queue, *, request_mgpu: int, submitted_at_us: int) -> QueueKey:
    """Return where ``queue`` stands among its siblings, judged by one request."""
    quota_mgpu = queue.quota.quota_mgpu
    after = queue.alloc_mgpu + request_mgpu
    if not request_mgpu or after <= quota_mgpu:
        fill = fill_before = 0
        if 0 < quota_mgpu < UNLIMITED_MGPU:
            fill = ratio(after, quota_mgpu)
            fill_before = ratio(queue.alloc_mgpu, quota_mgpu)
        return (0, fill, fill_before, 0, submitted_at_us, queue.name, queue.id)
    weight = queue.quota.weight_milli
    surplus = ratio(after - quota_mgpu, weight) if weight else 0
    return (1, -queue.quota.rank, int(not weight), surplus, submitted_at_us, queue.name, queue.id)


def last_key(queue: Queue) -> QueueKey:
    """Return the key of a queue that no waiting request speaks for: after all others."""
    return (2, 0, 0, 0, 0, queue.name, queue.id)


class Order:
    """Chooses the next line to try. What did not change since the last choice is not looked at again."""

    __slots__ = ("_best", "_departments", "_dirty", "_session", "_stale", "_waiting")

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._departments: dict[int, list[Queue]] = {each: [] for each in session.departments}
        for project in session.projects.values():
            if project.department is not None:
                self._departments[project.department.id].append(project)
        #: By project: its key and the line that speaks for it.
        self._best: dict[int, tuple[QueueKey, Line | None, Line]] = {}
        #: By department: its key and its best project.
        self._dirty = {each.id: each for each in session.projects.values()}
        self._stale: dict[int, tuple[QueueKey, int] | None] = {}

    def touch(self, project: Queue, *, protected: bool = False) -> None:
        """Note that ``project``'s lines or totals changed; ``protected``: non-preemptible ones."""
        self._dirty[project.id] = project
        department = project.department
        assert department is not None
        self._stale.pop(department.id, None)
        if protected:
            for sibling in self._departments[department.id]:
                self._dirty[sibling.id] = sibling

    def touch_all(self) -> None:
        """Note that every line may have changed."""
        self._dirty.update(self._session.projects)
        self._stale.clear()

    def next(self) -> Line | None:
        """Return the line whose first request is to be tried next, or None when none is left."""
        self._refresh()
        found = [entry for entry in self._stale.values() if entry is not None]
        if not found:
            return None
        _, project_id = min(found)
        return self._best[project_id][2]

    def _refresh(self) -> None:
        for project in self._dirty.values():
            best = self._judge(project)
            if best is None:
                self._best.pop(project.id, None)
            else:
                self._best[project.id] = best
            assert project.department is not None
            self._stale.pop(project.department.id, None)
        self._dirty.clear()
        if len(self._stale) == len(self._departments):
            return
        for department_id in self._departments:
            if department_id not in self._stale:
                self._stale[department_id] = self._judge_department(department_id)

    def _judge(self, project: Queue) -> tuple[QueueKey, Line | None, Line] | None:
        """Return a project's key, the line that speaks for it and its first line."""
        lines = [
            line for line in self._waiting.lines_of[project.id] if not line.aside and len(line)
        ]
        if not lines:
            return None
        first = min(lines, key=_line_key)
        speakers = [line for line in lines if line.preemptible or _within_guarantee(line)]
        if not speakers:
            return last_key(project), None, first
        speaker = first if first in speakers else min(speakers, key=_line_key)
        key = queue_key(
            project,
            request_mgpu=speaker.amount.mgpu,
            submitted_at_us=speaker.entries[speaker.first][0],
        )
        return key, speaker, first

    def _judge_department(self, department_id: int) -> tuple[QueueKey, int] | None:
        ranked = [
            (self._best[project.id][0], project.id)
            for project in self._departments[department_id]
            if project.id in self._best
        ]
        if not ranked:
            return None
        _, project_id = min(ranked)
        speaker = self._best[project_id][1]
        department = self._session.departments[department_id]
        if speaker is None:
            return last_key(department), project_id
        key = queue_key(
            department,
            request_mgpu=speaker.amount.mgpu,
            submitted_at_us=speaker.entries[speaker.first][0],
        )
        return key, project_id


def _line_key(line: Line) -> tuple[int, bool, int, str, int]:
    return line.key


def _within_guarantee(line: Line) -> bool:
    return passes_guarantees(project=line.project, amount=line.amount, preemptible=line.preemptible)
