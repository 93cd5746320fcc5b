"""Prospects: which lines are known to fail, and which of them a release or a start may help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.core import preempt, quota, reclaim
from scheduler.core.books import changed_since
from scheduler.core.queues import Queue
from scheduler.core.session import Session
from scheduler.core.shape import Shape
from scheduler.core.waiting import Line, Waiting

#: Above every priority.
_NOTHING = 1 << 30


class Prospects:
    """What one cycle knows of lines that fail, until something changes on which that depends."""

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        #: Lines for which not even all lesser work of their project makes room.
        self._marked: set[Line] = set()
        #: The later books' log, and how far it had come at the last release.
        self._log = session.later.log
        self._woken_at = len(self._log)
        #: Groups without a place, of which all that can't take one were set aside.
        self._swept: set[tuple[Shape, int]] = set()
        #: Lines that looked for victims in vain, and were not marked.
        self.searchers: dict[Line, None] = {}
        #: Projects that started or lost something since the last release.
        self.moved: set[int] = set()

    def set_hopeless_aside(self) -> None:
        """Set aside, before any is tried in turn, what is known to fail whatever else is tried."""
        least = {
            project: self._least_priority(project) for project in self._session.projects.values()
        }
        for group, lines in self._waiting.groups.items():
            mgpu = lines[0].amount.mgpu
            has_places = self._has_places(group)
            if not has_places:
                self._swept.add(group)
            for line in lines:
                if line.first == len(line.entries) or (has_places and _passes_checks(line)):
                    continue
                project = line.project
                is_entitled = mgpu > 0 and project.alloc_mgpu + mgpu <= project.bar_mgpu
                has_lesser = least[project] < line.priority
                if not (is_entitled or has_lesser) or not self._may_search(
                    line, is_entitled=is_entitled, has_lesser=has_lesser
                ):
                    line.aside = True

    def _may_search(self, line: Line, *, is_entitled: bool, has_lesser: bool) -> bool:
        """Test whether victims may be found for ``line``, which can't start without."""
        if self._is_lost(line) or self._waits_for_vacated(line):
            return False
        session = self._session
        if is_entitled:
            self.searchers[line] = None
            if reclaim.could_clear(session, line.project, line.shape, line.count):
                return True
        return has_lesser and preempt.reaches(session, line.head())

    def _least_priority(self, project: Queue) -> int:
        """Return the lowest priority among what may be interrupted of ``project``."""
        candidates = self._session.roster.candidates(project)
        return candidates[0].order[0] if candidates else _NOTHING

    def _has_places(self, group: tuple[Shape, int]) -> bool:
        session = self._session
        return session.placer(session.start).slots(group[0]).total >= group[1]

    def like_failures(self, line: Line) -> Iterator[Line]:
        """Yield the lines that need the same places as ``line``, which failed, and fail with it: there
        are none, and they can't take one either.
        """
        group = line.group
        if group in self._swept or self._has_places(group):
            return
        self._swept.add(group)
        for other in self._waiting.groups[group]:
            if not other.aside and len(other) and not self._may_take(other):
                yield other

    def is_vain(self, line: Line) -> bool:
        """Test whether no rule can help ``line`` by interrupting others, whoever they are."""
        return not self._may_take(line) or self._is_lost(line) or self._waits_for_vacated(line)

    def note_search(self, line: Line, *, is_short: bool) -> None:
        """Note that preemption was tried for ``line``: for lack of devices in vain, or not."""
        if is_short:
            self._marked.add(line)
        else:
            self.searchers[line] = None

    def is_blocked(self, line: Line) -> bool:
        """Test whether preemption for ``line`` is known to fail for lack of devices."""
        if line not in self._marked or not len(line):
            return False
        if preempt.reaches(self._session, line.head()):
            self._marked.discard(line)
            return False
        return True

    def has_lesser_work(self, line: Line) -> bool:
        """Test whether the project runs preemptible work of lower priority."""
        return self._least_priority(line.project) < line.priority

    def _may_take(self, line: Line) -> bool:
        """Test whether some rule could interrupt others for ``line``, whoever they are."""
        return self._session.policy.consolidation or (
            not line.is_lost and (_is_entitled(line) or self.has_lesser_work(line))
        )

    def _is_lost(self, line: Line) -> bool:
        """Test, by a bound that holds for the whole cycle, whether no victims could help ``line``."""
        session = self._session
        if session.policy.consolidation:
            return False
        if not line.is_lost:
            firm = session.placer(session.firm_books()).slots(line.shape)
            line.is_lost = firm.total < line.count or not quota.passes_guarantees(
                project=line.project, amount=line.amount, preemptible=line.preemptible
            )
        return line.is_lost

    def _waits_for_vacated(self, line: Line) -> bool:
        """Test whether ``line`` will fit once victims of others are gone: it needs none of its own."""
        if line.shape.gpu_memory_mib or not _passes_checks(line):
            return False
        session = self._session
        return session.placer(session.later).slots(line.shape).total >= line.count

    def woken_by_release(self) -> list[Line]:
        """Return those set aside whose outcome what came free, or whoever left, could change."""
        if self._session.policy.consolidation:
            return [line for line in self._waiting if line.aside]
        has_places = {group: self._has_places(group) for group in self._waiting.groups}
        woken = []
        for line in self._concerned(has_places):
            if not line.aside:
                continue
            if not has_places[line.group]:
                if line.is_lost or not (_is_entitled(line) or self.has_lesser_work(line)):
                    continue
            elif _passes_checks(line):
                woken.append(line)
                continue
            if self._may_search_again(line):
                woken.append(line)
        return woken

    def _changed_nodes(self) -> set[int]:
        """Return the nodes that changed in the later books since the last release."""
        log = self._session.later.log
        changed = changed_since(self._log, self._woken_at, log)
        self._log, self._woken_at = log, len(log)
        return changed

    def _concerned(self, has_places: dict[tuple[Shape, int], bool]) -> Iterable[Line]:
        """Return the lines whose outcome may be another since the last release.

        Those for whose shape there is a place as there was none before; those of projects that run
        something on a node that changed, or lost or started something, or may hold more by the limit
        of their department; those that looked for victims and failed, but for the ones marked as
        needing devices that none of these nodes gives.
        """
        session = self._session
        later, changed = session.placer(session.later), self._changed_nodes()
        near = {each for position in changed for each in session.roster.by_project_on(position)}
        near |= self.moved
        near |= self._siblings_of_moved()
        self.moved.clear()
        lines: dict[Line, None] = dict.fromkeys(self.searchers)
        for group, like in self._waiting.groups.items():
            if has_places[group]:
                if group in self._swept:
                    self._swept.discard(group)
                    lines.update(dict.fromkeys(like))
            elif self._marked:
                by_node = later.slots(group[0]).by_node
                if any(by_node.get(position) for position in changed):
                    lines.update(dict.fromkeys(each for each in like if each in self._marked))
        for project_id in sorted(near):
            lines.update(dict.fromkeys(self._waiting.lines_of[project_id]))
        return lines

    def _siblings_of_moved(self) -> set[int]:
        """Return the projects of bounded departments of which something started or left."""
        session = self._session
        departments = {session.projects[each].department for each in self.moved}
        return {
            project.id
            for department in departments
            if department is not None and department.is_bounded
            for project in session.projects_of[department.id]
        }

    def _may_search_again(self, line: Line) -> bool:
        """Test whether victims may be found by now for ``line``, which can't start without."""
        if not self._may_take(line) or self._waits_for_vacated(line):
            return False
        return _is_entitled(line) or not self.is_blocked(line)

    def woken_by_start(self, started: Line) -> list[Line]:
        """Return entitled ones set aside: what just started may have made its queue a borrower."""
        if started.project.alloc_mgpu <= started.project.bar_mgpu:
            return []
        return [
            line
            for line in self.searchers
            if line.aside
            and line.project is not started.project
            and not line.is_lost
            and _is_entitled(line)
        ]


def _is_entitled(line: Line) -> bool:
    mgpu = line.amount.mgpu
    return mgpu > 0 and line.project.alloc_mgpu + mgpu <= line.project.bar_mgpu


def _passes_checks(line: Line) -> bool:
    return quota.passes(project=line.project, amount=line.amount, preemptible=line.preemptible)
