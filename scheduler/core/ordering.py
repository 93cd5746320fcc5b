"""Order: which department, which project in it, which of its waiting requests is tried next.

Ratios are compared exactly: both sides are scaled to integers so finely that unequal ones stay unequal.

By the rules, a queue is judged by its best waiting request, every mark "set aside" is lifted by every
start, and a request that fails once more is set aside once more. ``Order`` gets the same result without
trying again what is known to fail. As long as nothing starts, trying is a merge: each queue stands at the
key of the request that judges it and moves on to the next; the queue with the smallest key moves. So the
queue that first comes to a request worth trying is the one for which the largest key on the way there,
its *bottleneck*, is smallest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from scheduler.core.quota import passes_guarantees
from scheduler.core.session import Queue, Session
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.waiting import Line, Waiting

#: Two unequal fractions of amounts below 2**53 differ by more than 2**-106.
_SCALE_BITS = 128

#: How a queue stands by the amount asked for; then the first submission, the name, the id.
Standing = tuple[int, int, int, int]
QueueKey = tuple[Standing, int, str, int]


def ratio(numerator: int, denominator: int) -> int:
    """Return a whole number that orders fractions exactly. The denominator is positive."""
    return (numerator << _SCALE_BITS) // denominator


def standing(queue: Queue, request_mgpu: int) -> Standing:
    """Return where ``queue`` stands among its siblings with a request for ``request_mgpu``."""
    quota_mgpu = queue.quota.quota_mgpu
    after = queue.alloc_mgpu + request_mgpu
    if not request_mgpu or after <= quota_mgpu:
        if 0 < quota_mgpu < UNLIMITED_MGPU:
            return (0, ratio(after, quota_mgpu), ratio(queue.alloc_mgpu, quota_mgpu), 0)
        return (0, 0, 0, 0)
    weight = queue.quota.weight_milli
    surplus = ratio(after - quota_mgpu, weight) if weight else 0
    return (1, -queue.quota.rank, int(not weight), surplus)


class _Way:
    """A project's way to its first request worth trying."""

    __slots__ = ("bottleneck", "line")

    def __init__(self, line: Line, bottleneck: QueueKey) -> None:
        self.line = line
        self.bottleneck = bottleneck


class Order:
    """Chooses the next line to try. What did not change since the last choice is not looked at again."""

    __slots__ = ("_bottlenecks", "_departments", "_dirty", "_session", "_waiting", "_ways")

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._departments: dict[int, list[Queue]] = {each: [] for each in session.departments}
        for project in session.projects.values():
            if project.department is not None:
                self._departments[project.department.id].append(project)
        self._dirty = dict(session.projects)
        #: By project; those without a request worth trying are not in it.
        self._ways: dict[int, _Way] = {}
        #: By department: its bottleneck and the line at the end.
        self._bottlenecks: dict[int, tuple[QueueKey, Line]] = {}

    def touch(self, project: Queue, *, protected: bool = False) -> None:
        """Note that ``project``'s lines or totals changed; ``protected``: non-preemptible ones."""
        self._dirty[project.id] = project
        if protected and project.department is not None:
            for sibling in self._departments[project.department.id]:
                self._dirty[sibling.id] = sibling

    def touch_all(self) -> None:
        """Note that every line may have changed."""
        self._dirty.update(self._session.projects)

    def next(self) -> Line | None:
        """Return the line whose first request is to be tried next, or None when none is left."""
        self._refresh()
        if not self._bottlenecks:
            return None
        return min(self._bottlenecks.values(), key=_first)[1]

    def _refresh(self) -> None:
        departments = set()
        for project in self._dirty.values():
            way = self._find_way(project)
            if way is None:
                self._ways.pop(project.id, None)
            else:
                self._ways[project.id] = way
            assert project.department is not None
            departments.add(project.department.id)
        self._dirty.clear()
        for department_id in departments:
            found = self._find_bottleneck(department_id)
            if found is None:
                self._bottlenecks.pop(department_id, None)
            else:
                self._bottlenecks[department_id] = found

    def _find_way(self, project: Queue) -> _Way | None:
        """Return the way to the first line that is not known to fail, or None if all are."""
        lines = self._waiting.lines_of[project.id]
        open_lines = [line for line in lines if not line.aside and len(line) and _judges(line)]
        if not open_lines:
            return None
        line = min(open_lines, key=_line_key)
        end = line.key
        passed = (
            _last_before(each, end) for each in lines if each.aside and len(each) and _judges(each)
        )
        judges = [(each, at) for each, at in passed if at is not None]
        judges.append((line, line.entries[line.first][0]))
        return _Way(line, _largest(project, judges))

    def _find_bottleneck(self, department_id: int) -> tuple[QueueKey, Line] | None:
        """Return the department's bottleneck: over all requests tried in it up to the first open one."""
        projects = self._departments[department_id]
        ways = [self._ways[each.id] for each in projects if each.id in self._ways]
        if not ways:
            return None
        way = min(ways, key=_bottleneck)
        judges = [(way.line, way.line.entries[way.line.first][0])]
        for project in projects:
            judges.extend(self._tried(project, way))
        return _largest(self._session.departments[department_id], judges), way.line

    def _tried(self, project: Queue, way: _Way) -> Iterable[tuple[Line, int]]:
        """Yield the lines of ``project`` tried before ``way``'s end is reached, each with the first
        submission of its last request that was.
        """
        lines = [
            line
            for line in self._waiting.lines_of[project.id]
            if line.aside and len(line) and _judges(line)
        ]
        if not lines:
            return
        end = _stop_key(project, self._waiting.lines_of[project.id], way)
        for line in lines:
            _, at = _last_before(line, end)
            if at is not None:
                yield line, at


_LineKey = tuple[int, bool, int, str, int]


def _stop_key(project: Queue, lines: Iterable[Line], way: _Way) -> _LineKey | None:
    """Return where a project stops moving: at its first request with a key above the bottleneck, or at
    the end of the way itself; None if it never does.
    """
    stops = []
    stand, *rest = way.bottleneck
    for line in lines:
        if not len(line) or not _judges(line):
            continue
        if line is way.line:
            stops.append(line.key)
            continue
        here = standing(project, line.amount.mgpu)
        if here > stand or (here == stand and not line.aside):
            stops.append(line.key)
        elif here == stand:
            submitted, name, queue_id = rest
            after = (project.name, project.id) > (name, queue_id)
            # Submissions are whole numbers: "after s" is "at or after s + 1".
            least = submitted if after else submitted + 1
            at = bisect_left(line.entries, least, lo=line.first, key=_submitted)
            if at < len(line.entries):
                stops.append(line.key_at(at))
    return min(stops, default=None)


def _last_before(line: Line, end: _LineKey | None) -> tuple[Line, int | None]:
    """Return ``line`` with the first submission of its last request that stands before ``end``."""
    if end is None or (-line.priority, line.further) < end[:2]:
        return line, line.entries[-1][0]
    if (-line.priority, line.further) > end[:2]:
        return line, None
    at = bisect_left(line.entries, end[2:], lo=line.first, key=_entry_key)
    return line, line.entries[at - 1][0] if at > line.first else None


def _largest(queue: Queue, judges: Iterable[tuple[Line, int]]) -> QueueKey:
    """Return the largest key of ``queue`` over the requests that judge it on the way."""
    best: tuple[Standing, int] | None = None
    known: dict[int, Standing] = {}
    for line, submitted in judges:
        mgpu = line.amount.mgpu
        stand = known.get(mgpu)
        if stand is None:
            stand = known[mgpu] = standing(queue, mgpu)
        if best is None or (stand, submitted) > best:
            best = (stand, submitted)
    assert best is not None
    return (*best, queue.name, queue.id)


def _judges(line: Line) -> bool:
    """Test whether requests of ``line`` speak for their queue: they pass check 2."""
    return line.preemptible or passes_guarantees(
        project=line.project, amount=line.amount, preemptible=line.preemptible
    )


def _first(entry: tuple[QueueKey, Line]) -> QueueKey:
    return entry[0]


def _bottleneck(way: _Way) -> QueueKey:
    return way.bottleneck


def _line_key(line: Line) -> _LineKey:
    return line.key


def _submitted(entry: tuple[int, str, int, object]) -> int:
    return entry[0]


def _entry_key(entry: tuple[int, str, int, object]) -> tuple[int, str, int]:
    return (entry[0], entry[1], entry[2])
