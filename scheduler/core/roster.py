"""The roster: what runs, by project and by node, and who of it may be interrupted."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from scheduler.core.jobs import Candidate, Job, Willingness, candidate_of
from scheduler.core.queues import Queue

_NOBODY: Mapping[int, Mapping[Job, None]] = {}


class Roster:
    """Jobs with live replicas. Who changes a job's replicas says so before and after."""

    __slots__ = (
        "_candidates",
        "_elastic",
        "_min_runtime_us",
        "_on_node",
        "now_us",
        "running",
    )

    def __init__(self, project_ids: Iterable[int], *, min_runtime_s: int, now_us: int) -> None:
        #: Jobs with live replicas, by project and id.
        self.running: dict[int, dict[int, Job]] = {each: {} for each in project_ids}
        #: By project, those that may be interrupted, most willing first; made on first use.
        self._candidates: dict[int, list[Candidate]] = {}
        #: By project, how many of them have further replicas.
        self._elastic: dict[int, int] = {}
        #: By node position and project, the jobs with replicas there; made on first use.
        self._on_node: dict[int, dict[int, dict[Job, None]]] | None = None
        self._min_runtime_us = min_runtime_s * 1_000_000
        self.now_us = now_us

    def set_time(self, now_us: int) -> None:
        """Set the time; with a minimum runtime others may be interrupted than before."""
        self.now_us = now_us
        if self._min_runtime_us:
            for found in self._candidates.values():
                for candidate in found:
                    candidate.job.candidate = None
            self._candidates.clear()
            self._elastic.clear()

    def candidates(self, project: Queue) -> list[Candidate]:
        """Return who of ``project`` may be interrupted, most willing first."""
        found = self._candidates.get(project.id)
        if found is None:
            found = self._candidates[project.id] = []
            self._elastic[project.id] = 0
            for job in self.running[project.id].values():
                self._add_candidate(job, found)
            found.sort(key=_order_of)
        return found

    def has_elastic(self, project: Queue) -> bool:
        """Test whether some of ``project``'s candidates have further replicas."""
        self.candidates(project)
        return self._elastic[project.id] > 0

    def by_project_on(self, position: int) -> Mapping[int, Mapping[Job, None]]:
        """Return the jobs with live replicas on the node at ``position``, by project id."""
        if self._on_node is None:
            self._on_node = {}
            for jobs in self.running.values():
                for job in jobs.values():
                    self._note_nodes(job)
        return self._on_node.get(position, _NOBODY)

    def is_interruptible(self, job: Job) -> bool:
        """Test whether ``job`` runs, is preemptible, past its minimum runtime and not just served."""
        if not job.held or not job.workload.preemptible or job.is_shielded:
            return False
        if not self._min_runtime_us:
            return True
        since = None if job.is_new else job.workload.running_since_us
        if since is None:
            since = min(held.started_at_us for held in job.held)
        return self.now_us - since >= self._min_runtime_us

    def before_change(self, job: Job) -> None:
        """Take ``job`` out, before its replicas change."""
        if self._on_node is not None:
            for held in job.held:
                of_project = self._on_node[held.place.node].get(job.project.id)
                if of_project is not None:
                    of_project.pop(job, None)
                    if not of_project:
                        del self._on_node[held.place.node][job.project.id]
        if job.candidate is None:
            return
        found = self._candidates[job.project.id]
        del found[bisect_left(found, job.candidate.order, key=_order_of)]
        self._elastic[job.project.id] -= job.spare > 0
        job.candidate = None

    def after_change(self, job: Job) -> None:
        """Put ``job`` back, after its replicas changed, if it still has any."""
        running = self.running[job.project.id]
        if not job.held:
            running.pop(job.workload.id, None)
            return
        running[job.workload.id] = job
        self._note_nodes(job)
        found = self._candidates.get(job.project.id)
        if found is not None and self._add_candidate(job, found):
            insort(found, found.pop(), key=_order_of)

    def _add_candidate(self, job: Job, found: list[Candidate]) -> bool:
        if not self.is_interruptible(job):
            return False
        job.candidate = candidate_of(job)
        found.append(job.candidate)
        self._elastic[job.project.id] += job.spare > 0
        return True

    def _note_nodes(self, job: Job) -> None:
        if self._on_node is not None:
            for held in job.held:
                on_node = self._on_node.setdefault(held.place.node, {})
                on_node.setdefault(job.project.id, {})[job] = None


def _order_of(candidate: Candidate) -> Willingness:
    return candidate.order


def nodes_of(roster: Roster, project: Queue) -> set[int]:
    """Return the nodes on which ``project`` runs something."""
    jobs = roster.running[project.id].values()
    return {held.place.node for job in jobs for held in job.held if held.place.node >= 0}
