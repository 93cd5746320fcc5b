"""What would be free if all that one department may take back were gone: a bound on every reclaim.

Kept from search to search, and brought up to date only where something changed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.core.books import Books
from scheduler.core.placement import SlotCount
from scheduler.core.queues import Queue
from scheduler.core.roster import Roster
from scheduler.core.shape import Shape


def is_source(project: Queue, own: Queue) -> bool:
    """Test whether a project of department ``own`` may take back what ``project`` holds: it is above
    its bar, and so is its department if that is another one.
    """
    if not project.is_above_bar:
        return False
    department = project.department
    assert department is not None
    return department is own or department.is_above_bar


class Clearable:
    """Books without what the projects of one department may take back.

    It follows the log of the books that it was made from, which is also to name each node on which
    other work may be interrupted than before, and ``crossings``: projects that came above their bar
    or below it, or whose department did.
    """

    __slots__ = (
        "_books",
        "_counts",
        "_crossed",
        "_crossings",
        "_later",
        "_own",
        "_roster",
        "_seen",
        "sources",
    )

    def __init__(
        self,
        later: Books,
        *,
        own: Queue,
        projects: Iterable[Queue],
        roster: Roster,
        crossings: Sequence[Queue],
    ) -> None:
        self._later = later
        self._own = own
        self._roster = roster
        self._crossings = crossings
        #: The projects that could be taken from, by id.
        self.sources = {each.id: each for each in projects if is_source(each, own)}
        self._books = later.copy()
        self._seen = len(later.log)
        self._crossed = len(crossings)
        self._counts: dict[Shape, SlotCount] = {}
        for project_id in self.sources:
            for job in roster.running[project_id].values():
                if roster.is_interruptible(job):
                    for held in job.held:
                        if held.place.node >= 0:
                            node = self._books.nodes[held.place.node]
                            node.move(job.shape, held.place.devices, 1)

    def slots(self, shape: Shape) -> SlotCount:
        """Return how many replicas of ``shape`` would fit, up to date."""
        self.follow()
        count = self._counts.get(shape)
        if count is None:
            count = self._counts[shape] = SlotCount(self._books, shape)
        count.follow()
        return count

    def follow(self) -> None:
        """Bring everything up to date."""
        log = self._later.log
        stale = set(log[self._seen :])
        self._seen = len(log)
        if self._crossed != len(self._crossings):
            for project in set(self._crossings[self._crossed :]):
                stale.update(self._nodes_of_change(project))
            self._crossed = len(self._crossings)
        for position in stale:
            self._renew(position)

    def _nodes_of_change(self, project: Queue) -> set[int]:
        """Return the nodes on which it matters that ``project`` became a source, or ceased to be one."""
        is_now = is_source(project, self._own)
        if is_now == (project.id in self.sources):
            return set()
        if is_now:
            self.sources[project.id] = project
        else:
            del self.sources[project.id]
        jobs = self._roster.running[project.id].values()
        return {held.place.node for job in jobs for held in job.held if held.place.node >= 0}

    def _renew(self, position: int) -> None:
        node = self._books.nodes[position]
        node.set_to(self._later.nodes[position])
        for job in self._roster.jobs_on(position):
            if job.project.id in self.sources and self._roster.is_interruptible(job):
                for held in job.held:
                    if held.place.node == position:
                        node.move(job.shape, held.place.devices, 1)
        self._books.log.append(position)
