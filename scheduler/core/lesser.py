"""Lesser work: how many more replicas would fit without what a project runs at lower priority.

Counted node by node, kept from search to search, and brought up to date where something changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.books import Books, changed_since
from scheduler.core.placement import Extra
from scheduler.core.queues import Queue
from scheduler.core.roster import Roster, nodes_of
from scheduler.core.shape import Shape
from scheduler.core.without import more_without, on_node


class Lesser:
    """By project, priority and shape: how many more replicas its lesser work would leave room for."""

    __slots__ = ("_at", "_found", "_log", "_logs", "_roster", "_there")

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._found: dict[tuple[int, int, Shape], Extra] = {}
        #: The later books' log, and how far it was looked through.
        self._log: list[int] = []
        self._at = 0
        #: By project that was asked about, the nodes on which it matters that they changed.
        self._logs: dict[int, list[int]] = {}
        #: By node, the projects that ran something there when it was last looked at.
        self._there: dict[int, set[int]] = {}

    def clear(self) -> None:
        """Forget everything: others may be interrupted than before."""
        self._found.clear()
        self._logs.clear()

    def more(
        self, project: Queue, priority: int, shape: Shape, later: Books, by_node: Mapping[int, int]
    ) -> int:
        """Return how many more would fit. ``by_node``: how many do in ``later`` as it is."""
        self._follow(later)
        own = self._logs.get(project.id)
        if own is None:
            own = self._logs[project.id] = []
        key = (project.id, priority, shape)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Extra(own)
            stale = nodes_of(self._roster, project)
        elif found.at == len(own):
            return found.total
        else:
            stale = set(own[found.at :])
        for position in stale:
            before = by_node.get(position)
            if before is None:
                continue
            jobs = self._roster.by_project_on(position).get(project.id, ())
            lesser = [
                job
                for job in jobs
                if job.workload.priority < priority and self._roster.is_interruptible(job)
            ]
            node, out = later.nodes[position], on_node(lesser, position)
            found.set(position, more_without(node, out, shape, before=before))
        found.at = len(own)
        return found.total

    def _follow(self, later: Books) -> None:
        """Tell each project of the nodes that changed and on which it runs something, or did."""
        log = later.log
        if self._log is log and self._at == len(log):
            return
        for position in changed_since(self._log, self._at, log):
            there = self._roster.by_project_on(position).keys()
            known = self._there.get(position)
            for project_id in there if known is None else there | known:
                own = self._logs.get(project_id)
                if own is not None:
                    own.append(position)
            self._there[position] = set(there)
        self._log, self._at = log, len(log)
