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
from scheduler.core.waiting import Entry, Line, Waiting

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
    """A project's way to its first request worth trying, and all lines that judge it, in order."""

    __slots__ = ("bottleneck", "line", "stations")

    def __init__(self, stations: list[_Station]) -> None:
        self.stations = stations
        self.line: Line | None = None
        self.bottleneck: QueueKey | None = None


class _Station:
    """One line on the way: where its first request stands, and how the project stands with it."""

    __slots__ = ("key", "line", "stand")

    def __init__(self, line: Line, stand: Standing) -> None:
        self.key = line.key
        self.line = line
        self.stand = stand


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
        self._ways: dict[int, _Way] = {}
        #: By department: its bottleneck and the line at the end.
        self._bottlenecks: dict[int, tuple[QueueKey, Line]] = {}

    def touch(self, project: Queue, *, protected: bool = False) -> None:
        """Note that ``project``'s lines or totals changed; ``protected``: non-preemptible ones."""
        self._dirty[project.id] = project
        if protected and project.department is not None:
            for sibling in self._departments[project.department.id]:
                self._dirty[sibling.id] = sibling

    def next(self) -> Line | None:
        """Return the line whose first request is to be tried next, or None when none is left."""
        if self._dirty:
            self._refresh()
        if not self._bottlenecks:
            return None
        return min(self._bottlenecks.values(), key=_first)[1]

    def _refresh(self) -> None:
        departments = set()
        for project in self._dirty.values():
            self._ways[project.id] = self._find_way(project)
            assert project.department is not None
            departments.add(project.department.id)
        self._dirty.clear()
        for department_id in departments:
            found = self._find_bottleneck(department_id)
            if found is None:
                self._bottlenecks.pop(department_id, None)
            else:
                self._bottlenecks[department_id] = found

    def _find_way(self, project: Queue) -> _Way:
        """Return the way to the first line that is not known to fail."""
        stands: dict[int, Standing] = {}
        stations = []
        for line in self._waiting.lines_of[project.id]:
            if line.first == len(line.entries) or not _judges(line):
                continue
            mgpu = line.amount.mgpu
            stand = stands.get(mgpu)
            if stand is None:
                stand = stands[mgpu] = standing(project, mgpu)
            stations.append(_Station(line, stand))
        stations.sort(key=_station_key)
        way = _Way(stations)
        end = next((each for each in stations if not each.line.aside), None)
        if end is not None:
            way.line = end.line
            worst = (end.stand, end.key[2])
            for station in stations:
                if station is end:
                    break
                at = _last_before(station, end.key)
                if (station.stand, at) > worst:
                    worst = (station.stand, at)
            way.bottleneck = (*worst, project.name, project.id)
        return way

    def _find_bottleneck(self, department_id: int) -> tuple[QueueKey, Line] | None:
        """Return the department's bottleneck: over all requests tried in it up to the first open one."""
        projects = self._departments[department_id]
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
            _note_tried(latest, self._ways[project.id].stations, bottleneck, line)
        department = self._session.departments[department_id]
        worst = max((standing(department, mgpu), at) for mgpu, at in latest.items())
        return (*worst, department.name, department.id), line


_LineKey = tuple[int, bool, int, str, int]


def _note_tried(
    latest: dict[int, int], stations: Iterable[_Station], bottleneck: QueueKey, end: Line
) -> None:
    """Note what a project asks for on its way to where it stops: its first request with a key above the
    bottleneck, or the request at ``end``.
    """
    stand = bottleneck[0]
    stop: _LineKey | None = None
    tried = []
    for station in stations:
        if stop is not None and station.key > stop:
            break
        here: _LineKey | None = None
        if station.line is end or station.stand > stand:
            here = station.key
        elif station.stand == stand:
            here = _first_above(station, bottleneck)
        if here is not None and (stop is None or here < stop):
            stop = here
        tried.append(station)
    for station in tried:
        if stop is not None and station.key >= stop:
            continue
        at = _last_before(station, stop)
        mgpu = station.line.amount.mgpu
        if mgpu not in latest or latest[mgpu] < at:
            latest[mgpu] = at


def _first_above(station: _Station, bottleneck: QueueKey) -> _LineKey | None:
    """Return where the first request stands that, at the same standing, is above the bottleneck."""
    line = station.line
    if not line.aside:
        return station.key
    _, submitted, name, queue_id = bottleneck
    # Submissions are whole numbers: "after s" is "at or after s + 1".
    later_name = (line.project.name, line.project.id) > (name, queue_id)
    least = submitted if later_name else submitted + 1
    at = bisect_left(line.entries, least, lo=line.first, key=_submitted)
    return line.key_at(at) if at < len(line.entries) else None


def _last_before(station: _Station, end: _LineKey | None) -> int:
    """Return the first submission of the line's last request that stands before ``end``; its first
    request does.
    """
    line = station.line
    if end is None or station.key[:2] < end[:2]:
        return line.entries[-1][0]
    at = bisect_left(line.entries, end[2:], lo=line.first, key=_entry_key)
    return line.entries[at - 1][0]


def _judges(line: Line) -> bool:
    """Test whether requests of ``line`` speak for their queue: they pass check 2."""
    return line.preemptible or passes_guarantees(
        project=line.project, amount=line.amount, preemptible=line.preemptible
    )


def _first(entry: tuple[QueueKey, Line]) -> QueueKey:
    return entry[0]


def _station_key(station: _Station) -> _LineKey:
    return station.key


def _submitted(entry: Entry) -> int:
    return entry[0]


def _entry_key(entry: Entry) -> tuple[int, str, int]:
    return (entry[0], entry[1], entry[2])
