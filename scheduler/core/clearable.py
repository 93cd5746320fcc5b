"""What would be free if all that one department may take back were gone: a bound on every reclaim.

Kept from search to search, and brought up to date only where something changed since the last one.
What every department may take back is counted once; each adds what only itself may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.books import Books
from scheduler.core.placement import Extra, SlotCount
from scheduler.core.queues import Queue
from scheduler.core.roster import Roster, nodes_of
from scheduler.core.shape import Shape
from scheduler.core.without import Out, more_without, on_node


class Cleared:
    """Books without what every department may take back: what projects above their bar hold, where
    their department is above its own too.

    It follows the log of the books that it was made from, which is also to name each node on which
    other work may be interrupted than before, and ``crossings``: projects that came above their bar
    or below it, or whose department did.
    """

    __slots__ = (
        "_counts",
        "_crossed",
        "_later",
        "_seen",
        "books",
        "crossings",
        "roster",
        "sources",
    )

    def __init__(
        self,
        later: Books,
        *,
        projects: Iterable[Queue],
        roster: Roster,
        crossings: Sequence[Queue],
    ) -> None:
        self._later = later
        self.roster = roster
        self.crossings = crossings
        #: The projects that could be taken from, by id.
        self.sources = {each.id: each for each in projects if _gives_to_all(each)}
        self.books = later.copy()
        self._seen = len(later.log)
        self._crossed = len(crossings)
        self._counts: dict[Shape, SlotCount] = {}
        for project_id in self.sources:
            for job in roster.running[project_id].values():
                if roster.is_interruptible(job):
                    for held in job.held:
                        if held.place.node >= 0:
                            node = self.books.nodes[held.place.node]
                            node.move(job.shape, held.place.devices, 1)

    def slots(self, shape: Shape) -> SlotCount:
        """Return how many replicas of ``shape`` would fit, up to date."""
        self.follow()
        count = self._counts.get(shape)
        if count is None:
            count = self._counts[shape] = SlotCount(self.books, shape)
        count.follow()
        return count

    def set_later(self, later: Books) -> None:
        """Follow ``later``, which was copied from the books followed so far, up to date with those."""
        self._later = later
        self._seen = len(later.log)

    def follow(self) -> None:
        """Bring everything up to date."""
        log = self._later.log
        stale: set[int] = set()
        if self._seen != len(log):
            stale.update(log[self._seen :])
            self._seen = len(log)
        if self._crossed != len(self.crossings):
            for project in set(self.crossings[self._crossed :]):
                if _turn(self.sources, project, is_source=_gives_to_all(project)):
                    stale |= nodes_of(self.roster, project)
            self._crossed = len(self.crossings)
        for position in stale:
            self.books.nodes[position].set_to(self._later.nodes[position])
            self._clear(position)
            self.books.log.append(position)

    def _clear(self, position: int) -> None:
        """Give back what may be taken on one node."""
        move, roster = self.books.nodes[position].move, self.roster
        for project_id, jobs in roster.by_project_on(position).items():
            if project_id in self.sources:
                for job in jobs:
                    if roster.is_interruptible(job):
                        for held in job.held:
                            if held.place.node == position:
                                move(job.shape, held.place.devices, 1)


class Clearable:
    """What one department may take back: of every borrower, and of its own projects although it stands
    within its bar itself.
    """

    __slots__ = ("_at", "_cleared", "_crossed", "_extra", "_gains", "_own", "_touched", "log")

    def __init__(self, cleared: Cleared, own: Queue, projects: Iterable[Queue]) -> None:
        cleared.follow()
        self._cleared = cleared
        self._own = own
        #: The projects that only its own department may take from, by id.
        self._extra = {each.id: each for each in projects if _gives_to_own(each)}
        #: Nodes that these hold something on, or did.
        self._touched: set[int] = set()
        for project in self._extra.values():
            self._touched |= nodes_of(cleared.roster, project)
        self._at = len(cleared.books.log)
        self._crossed = len(cleared.crossings)
        #: Nodes on which these held other than before, one after the other.
        self.log: list[int] = []
        self._gains: dict[Shape, Extra] = {}

    def sources(self) -> list[Queue]:
        """Return the projects that could be taken from."""
        self._follow()
        return [*self._cleared.sources.values(), *self._extra.values()]

    def takes(self, shape: Shape, count: int) -> bool:
        """Test whether ``count`` replicas of ``shape`` would fit."""
        total = self._cleared.slots(shape).total
        if total >= count:
            return True
        self._follow()
        return bool(self._extra) and total + self._gain_of(shape).total >= count

    def by_node(self, shape: Shape) -> Mapping[int, int]:
        """Return, by node, how many replicas of ``shape`` would fit."""
        self._follow()
        by_node = self._cleared.slots(shape).by_node
        if not self._extra:
            return by_node
        merged = dict(by_node)
        for position, gain in self._gain_of(shape).by_node.items():
            merged[position] += gain
        return merged

    def _gain_of(self, shape: Shape) -> Extra:
        count, books = self._cleared.slots(shape), self._cleared.books
        gain = self._gains.get(shape)
        if gain is None:
            gain = self._gains[shape] = Extra(self.log)
            stale: Iterable[int] = self._touched
        else:
            stale = set(self.log[gain.at :])
        for position in stale:
            before = count.by_node.get(position)
            if before is not None:
                node, out = books.nodes[position], self._extra_on(position)
                gain.set(position, more_without(node, out, shape, before=before))
        gain.at = len(self.log)
        return gain

    def _extra_on(self, position: int) -> Out:
        """Return what only its own department may take on one node."""
        roster, extra = self._cleared.roster, self._extra
        return [
            row
            for project_id, jobs in roster.by_project_on(position).items()
            if project_id in extra
            for row in on_node(filter(roster.is_interruptible, jobs), position)
        ]

    def _follow(self) -> None:
        cleared = self._cleared
        cleared.follow()
        if self._crossed != len(cleared.crossings):
            for project in set(cleared.crossings[self._crossed :]):
                if project.department is not self._own:
                    continue
                if _turn(self._extra, project, is_source=_gives_to_own(project)):
                    positions = nodes_of(cleared.roster, project)
                    self._touched |= positions
                    self.log.extend(positions)
            self._crossed = len(cleared.crossings)
        log = cleared.books.log
        if self._at != len(log):
            for position in set(log[self._at :]):
                if position not in self._touched:
                    if self._extra.keys().isdisjoint(cleared.roster.by_project_on(position)):
                        continue
                    self._touched.add(position)
                self.log.append(position)
            self._at = len(log)


def _gives_to_all(project: Queue) -> bool:
    """Test whether every department may take back what ``project`` holds: it is above its bar, and so
    is its department.
    """
    department = project.department
    assert department is not None
    return project.is_above_bar and department.is_above_bar


def _gives_to_own(project: Queue) -> bool:
    """Test whether its own department alone may take back what ``project`` holds."""
    department = project.department
    assert department is not None
    return project.is_above_bar and not department.is_above_bar


def _turn(sources: dict[int, Queue], project: Queue, *, is_source: bool) -> bool:
    """Put ``project`` among ``sources``, or take it out; False: that is how it was."""
    if is_source == (project.id in sources):
        return False
    if is_source:
        sources[project.id] = project
    else:
        del sources[project.id]
    return True
