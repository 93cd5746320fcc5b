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
from collections.abc import Sequence
from typing import NamedTuple

from scheduler.core.queues import Queue
from scheduler.core.quota import passes_guarantees
from scheduler.core.session import Session
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.waiting import Entry, Line, LineKey, Waiting

#: Two unequal fractions of amounts below 2**53 differ by more than 2**-106.
_SCALE_BITS = 128

#: How a queue stands by the amount asked for; then the first submission, the name, the id.
Standing = tuple[int, int, int, int]
QueueKey = tuple[Standing, int, str, int]
_LOWEST: Standing = (-1, 0, 0, 0)


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


class _Station(NamedTuple):
    """A line on a project's way, by where its first request stands."""

    key: LineKey
    line: Line
    #: How the project stands with a request of the line.
    stand: Standing
    mgpu: int
    #: The line's last request: first submission, name, id.
    last: tuple[int, str, int]


class _Way:
    """A project's way to its first request worth trying, and all lines that judge it, in order."""

    __slots__ = (
        "_firm",
        "_latest",
        "_lines",
        "_stands",
        "_stations",
        "_worst",
        "bottleneck",
        "line",
        "stamp",
    )

    def __init__(self, stands: _Stands, lines: Sequence[Line], stamp: tuple[object, ...]) -> None:
        #: What the project was like when this was made.
        self.stamp = stamp
        #: Which lines of what can't be interrupted judged it then.
        self._firm: list[Line] = []
        self._stands = stands
        self._lines = lines
        self._stations: list[_Station] | None = None
        self._latest: dict[int, int] | None = None
        self._worst: Standing | None = None
        self.line: Line | None = None
        self.bottleneck: QueueKey | None = None

    @property
    def stations(self) -> list[_Station]:
        """Return the lines that judge the project, in order."""
        if self._stations is None:
            stand = self._stands.of
            self._stations = [
                _Station(
                    line.head_key,
                    line,
                    stand(line.amount.mgpu),
                    line.amount.mgpu,
                    line.entries[-1][:3],
                )
                for line in self._lines
                if line.first != len(line.entries) and _judges(line)
            ]
            self._stations.sort(key=_station_key)
            self._firm = self._find_firm()
        return self._stations

    def _find_firm(self) -> list[Line]:
        return [
            line
            for line in self._lines
            if not line.preemptible and line.first != len(line.entries) and _judges(line)
        ]

    def is_judged_anew(self) -> bool:
        """Test whether other lines of what can't be interrupted may judge the project than when this was
        made.
        """
        return self._stations is None or self._firm != self._find_firm()

    @property
    def is_open(self) -> bool:
        """Test whether some line is worth trying."""
        return any(not line.aside and line.first != len(line.entries) for line in self._lines)

    def latest(self) -> dict[int, int]:
        """Return, by amount asked for, the latest first submission of all requests on the way."""
        if self._latest is None:
            found: dict[int, int] = {}
            for station in self.stations:
                at = station.last[0]
                if found.get(station.mgpu, at) <= at:
                    found[station.mgpu] = at
            self._latest = found
        return self._latest

    def is_below(self, stand: Standing) -> bool:
        """Test whether the project stands below ``stand`` with every request on the way."""
        if self._worst is None:
            self._worst = max([station.stand for station in self.stations], default=_LOWEST)
        return self._worst < stand


class _Stands:
    """Where one queue stands by the amount asked for, kept while it holds as much."""

    __slots__ = ("_found", "_held_mgpu", "_queue", "quota")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.quota = queue.quota
        self._held_mgpu = queue.alloc_mgpu
        self._found: dict[int, Standing] = {}

    def of(self, mgpu: int) -> Standing:
        """Return where the queue stands with a request for ``mgpu``."""
        if self._held_mgpu != self._queue.alloc_mgpu:
            self._held_mgpu = self._queue.alloc_mgpu
            self._found = {}
        stand = self._found.get(mgpu)
        if stand is None:
            stand = self._found[mgpu] = standing(self._queue, mgpu)
        return stand


class Order:
    """Chooses the next line to try. What did not change since the last choice is not looked at again."""

    __slots__ = (
        "_bottlenecks",
        "_dirty",
        "_doubtful",
        "_session",
        "_stands",
        "_turned",
        "_waiting",
        "_ways",
    )

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._dirty: dict[int, Queue] = {}
        #: Those of which nothing changed but which of their lines are set aside.
        self._turned: dict[int, Queue] = {}
        #: Those that may be judged by other lines, as their department's guarantee is used otherwise.
        self._doubtful: dict[int, Queue] = {}
        self._ways: dict[int, _Way] = {}
        self._stands = {
            queue: _Stands(queue)
            for queues in (session.departments, session.projects)
            for queue in queues.values()
        }
        #: By department: its bottleneck and the line at the end.
        self._bottlenecks: dict[int, tuple[QueueKey, Line]] = {}

    def begin_cycle(self) -> None:
        """Begin anew. The ways of projects of which nothing changed since the last cycle are kept."""
        for queue, stands in self._stands.items():
            if stands.quota is not queue.quota:
                self._stands[queue] = _Stands(queue)
        self._bottlenecks.clear()
        self._doubtful.clear()
        self._dirty = {
            project_id: project
            for project_id, project in self._session.projects.items()
            if (way := self._ways.get(project_id)) is None or way.stamp != _stamp_of(project)
        }
        self._turned = dict(self._session.projects)

    def touch(self, project: Queue, *, protected: bool = False) -> None:
        """Note that ``project``'s lines or totals changed; ``protected``: non-preemptible ones."""
        self._dirty[project.id] = project
        if protected and project.department is not None:
            for sibling in self._session.projects_of[project.department.id]:
                self._doubtful[sibling.id] = sibling

    def set_aside(self, line: Line) -> None:
        """Set ``line`` aside. Only where its project stops at it does that change anything."""
        line.aside = True
        way = self._ways.get(line.project.id)
        if way is None or way.line is line:
            self._turned[line.project.id] = line.project

    def wake(self, line: Line) -> None:
        """Let ``line`` be tried again."""
        line.aside = False
        self._turned[line.project.id] = line.project

    def next(self) -> Line | None:
        """Return the line whose first request is to be tried next, or None when none is left."""
        if self._dirty or self._turned:
            self._refresh()
        if not self._bottlenecks:
            return None
        return min(self._bottlenecks.values(), key=_first)[1]

    def _refresh(self) -> None:
        for project_id, project in self._doubtful.items():
            if project_id not in self._dirty and self._ways[project_id].is_judged_anew():
                self._dirty[project_id] = project
        self._doubtful.clear()
        for project_id, project in self._dirty.items():
            lines = self._waiting.lines_of[project_id]
            self._ways[project_id] = _Way(self._stands[project], lines, _stamp_of(project))
        self._turned.update(self._dirty)
        departments = set()
        for project in self._turned.values():
            _find_way(self._ways[project.id], project)
            assert project.department is not None
            departments.add(project.department.id)
        self._dirty.clear()
        self._turned.clear()
        for department_id in departments:
            found = self._find_bottleneck(department_id)
            if found is None:
                self._bottlenecks.pop(department_id, None)
            else:
                self._bottlenecks[department_id] = found

    def _find_bottleneck(self, department_id: int) -> tuple[QueueKey, Line] | None:
        """Return the department's bottleneck: over all requests tried in it up to the first open one."""
        projects = self._session.projects_of[department_id]
        best: tuple[QueueKey, Line] | None = None
        for project in projects:
            way = self._ways[project.id]
            if way.bottleneck is None or way.line is None:
                continue
            if best is None or way.bottleneck < best[0]:
                best = (way.bottleneck, way.line)
        if best is None:
            return None
        bottleneck, line = best
        #: By amount asked for: the latest first submission among the requests tried.
        latest = {line.amount.mgpu: line.entries[line.first][0]}
        for project in projects:
            way = self._ways[project.id]
            if way.is_below(bottleneck[0]) and project is not line.project:
                for mgpu, at in way.latest().items():
                    if latest.get(mgpu, at) <= at:
                        latest[mgpu] = at
            else:
                _note_tried(latest, way, bottleneck, line)
        department = self._session.departments[department_id]
        stands = self._stands[department]
        worst = max((stands.of(mgpu), at) for mgpu, at in latest.items())
        return (*worst, department.name, department.id), line


def _stamp_of(project: Queue) -> tuple[object, ...]:
    """Return what a project's way depends on, but for which of its lines are set aside."""
    department = project.department
    assert department is not None
    return (
        project.line_changes,
        project.alloc_mgpu,
        project.protected_mgpu,
        project.protected_cpu_milli,
        project.protected_memory_mib,
        project.quota,
        department.protected_mgpu,
        department.protected_cpu_milli,
        department.protected_memory_mib,
        department.quota,
    )


def _find_way(way: _Way, project: Queue) -> None:
    """Find the first line on ``way`` that is not known to fail."""
    way.line = way.bottleneck = None
    if not way.is_open:
        return
    stations = way.stations
    for number, (key, line, stand, _, _) in enumerate(stations):
        if line.aside:
            continue
        worst = (stand, key[2])
        for other in stations[:number]:
            if other.stand >= worst[0]:
                reached = (other.stand, _last_before(other, key))
                if reached > worst:
                    worst = reached
        way.line = line
        way.bottleneck = (*worst, project.name, project.id)
        return


def _note_tried(latest: dict[int, int], way: _Way, bottleneck: QueueKey, end: Line) -> None:
    """Note what a project asks for on its way to where it stops: its first request with a key above the
    bottleneck, or the request at ``end``.
    """
    stand = bottleneck[0]
    stop: LineKey | None = None
    tried = []
    for station in way.stations:
        key, line, own, _, _ = station
        if stop is not None and key > stop:
            break
        here: LineKey | None = None
        if line is end or own > stand:
            here = key
        elif own == stand:
            here = _first_above(key, line, bottleneck)
        if here is not None and (stop is None or here < stop):
            stop = here
        tried.append(station)
    for station in tried:
        if stop is not None and station.key >= stop:
            continue
        at = _last_before(station, stop)
        if latest.get(station.mgpu, at) <= at:
            latest[station.mgpu] = at


def _first_above(key: LineKey, line: Line, bottleneck: QueueKey) -> LineKey | None:
    """Return where the first request stands that, at the same standing, is above the bottleneck."""
    if not line.aside:
        return key
    _, submitted, name, queue_id = bottleneck
    # Submissions are whole numbers: "after s" is "at or after s + 1".
    later_name = (line.project.name, line.project.id) > (name, queue_id)
    least = submitted if later_name else submitted + 1
    entries = line.entries
    if entries[-1][0] < least:
        return None
    return line.key_at(bisect_left(entries, least, lo=line.first, key=_submitted))


def _last_before(station: _Station, end: LineKey | None) -> int:
    """Return the first submission of the line's last request that stands before ``end``; its first
    request does.
    """
    last = station.last
    if end is None or station.key[:2] < end[:2] or last < end[2:]:
        return last[0]
    entries = station.line.entries
    at = bisect_left(entries, end[2:], lo=station.line.first, key=_entry_key)
    return entries[at - 1][0]


def _judges(line: Line) -> bool:
    """Test whether requests of ``line`` speak for their queue: they pass check 2."""
    return line.preemptible or passes_guarantees(
        project=line.project, amount=line.amount, preemptible=line.preemptible
    )


def _first(entry: tuple[QueueKey, Line]) -> QueueKey:
    return entry[0]


def _station_key(station: _Station) -> LineKey:
    return station[0]


def _submitted(entry: Entry) -> int:
    return entry[0]


def _entry_key(entry: Entry) -> tuple[int, str, int]:
    return (entry[0], entry[1], entry[2])
