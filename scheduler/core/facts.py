"""Facts: what the workloads of a pool say in all, counted in and out one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from scheduler.core.shape import Shape
from scheduler.core.snapshot import Workload
from scheduler.core.vocabulary import ReplicaPhase

#: Counts for the mix are kept to this many binary digits (about 3 %), so that it seldom changes.
_MIX_BITS = 5


class Facts:
    """Workloads by id, with the sets and sums over them that the rules ask for."""

    __slots__ = (
        "_firm_mgpu",
        "_lent_mgpu",
        "_shapes",
        "_unsorted",
        "_waiting_since",
        "changed_projects",
        "nominees",
        "paused",
        "starving",
        "stopping_on",
        "vacating",
        "workloads",
    )

    def __init__(self, project_ids: Iterable[int]) -> None:
        ids = list(project_ids)
        self.workloads: dict[int, Workload] = {}
        #: Those for which places are kept.
        self.nominees: dict[int, Workload] = {}
        #: By the id that devices are vacated for: the ids of those that are being stopped for it.
        self.vacating: dict[int, dict[int, None]] = {}
        #: By node name, how many replicas are being stopped there.
        self.stopping_on: dict[str, int] = {}
        #: Those whose last start failed, or that are kept back: they pause, or did.
        self.paused: dict[int, Workload] = {}
        #: Those that stand at the head of their queue lacking only devices.
        self.starving: dict[int, Workload] = {}
        #: Projects of which something was counted in or out since the fair shares were divided.
        self.changed_projects: set[int] = set(ids)
        #: By project, what it asks for in all: what may borrow, and what may not.
        self._lent_mgpu = dict.fromkeys(ids, 0)
        self._firm_mgpu = dict.fromkeys(ids, 0)
        #: By project, the first submissions of those that have fewer replicas than they want.
        self._waiting_since: dict[int, list[int]] = {each: [] for each in ids}
        self._unsorted: set[int] = set()
        self._shapes: dict[Shape, int] = {}

    def add(self, workload: Workload, shape: Shape) -> None:
        """Count ``workload`` in. ``shape`` is that of its replicas."""
        self.workloads[workload.id] = workload
        wanted, live = self._count(workload, shape, 1)
        if live < wanted:
            self._waiting_since[workload.project_id].append(workload.submitted_at_us)
            self._unsorted.add(workload.project_id)
        if workload.nominated:
            self.nominees[workload.id] = workload
        if workload.may_pause:
            self.paused[workload.id] = workload
        if workload.starving_since_us is not None:
            self.starving[workload.id] = workload
        for replica in workload.replicas:
            if replica.phase is ReplicaPhase.STOPPING:
                node = replica.placement.node
                self.stopping_on[node] = self.stopping_on.get(node, 0) + 1
                if replica.vacated_for_id is not None:
                    self.vacating.setdefault(replica.vacated_for_id, {})[workload.id] = None

    def remove(self, workload: Workload, shape: Shape) -> None:
        """Count ``workload`` out, which was counted in with ``shape``."""
        del self.workloads[workload.id]
        wanted, live = self._count(workload, shape, -1)
        if live < wanted:
            since = self._sorted_since(workload.project_id)
            del since[bisect_left(since, workload.submitted_at_us)]
        self.nominees.pop(workload.id, None)
        self.paused.pop(workload.id, None)
        self.starving.pop(workload.id, None)
        for replica in workload.replicas:
            if replica.phase is ReplicaPhase.STOPPING:
                self.stopping_on[replica.placement.node] -= 1
                if replica.vacated_for_id is not None:
                    self._end_vacating(replica.vacated_for_id, workload.id)

    def _end_vacating(self, served_id: int, workload_id: int) -> None:
        left = self.vacating.get(served_id)
        if left is not None:
            left.pop(workload_id, None)
            if not left:
                del self.vacating[served_id]

    def _count(self, workload: Workload, shape: Shape, sign: int) -> tuple[int, int]:
        live = len(workload.replicas)
        wanted = workload.max_replicas
        if wanted < workload.min_replicas:
            wanted = workload.min_replicas
        most = wanted if wanted > live else live
        amounts = self._lent_mgpu if workload.preemptible else self._firm_mgpu
        amounts[workload.project_id] += sign * shape.devices * shape.cheapest_mgpu * most
        self._shapes[shape] = self._shapes.get(shape, 0) + sign * most
        self.changed_projects.add(workload.project_id)
        return wanted, live

    def lent_mgpu(self, project_id: int) -> int:
        """Return what a project asks for in all that may be interrupted."""
        return self._lent_mgpu[project_id]

    def firm_mgpu(self, project_id: int) -> int:
        """Return what a project asks for in all that may not be interrupted."""
        return self._firm_mgpu[project_id]

    def waiting_since_us(self, project_id: int) -> int | None:
        """Return when the project's longest-waiting workload was submitted."""
        since = self._sorted_since(project_id)
        return since[0] if since else None

    def _sorted_since(self, project_id: int) -> list[int]:
        since = self._waiting_since[project_id]
        if project_id in self._unsorted:
            since.sort()
            self._unsorted.discard(project_id)
        return since

    def mix_counts(self) -> Iterator[tuple[Shape, int]]:
        """Yield what is asked for: shapes with about how many replicas, exact where they are few."""
        for shape, count in self._shapes.items():
            if count:
                low_bits = max(0, count.bit_length() - _MIX_BITS)
                yield shape, count >> low_bits << low_bits

    def is_paused(self, workload: Workload, now_us: int) -> bool:
        """Test whether ``workload`` pauses after a start that failed, or is kept back."""
        until_us = workload.backing_off_until_us
        return (until_us is not None and until_us > now_us) or workload.is_kept_back(now_us)
