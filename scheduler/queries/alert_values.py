"""The figures that alert rules watch, from the tables as they are now: by project, then by scope.

Unknown is None, never 0: without a reading nothing is idle, without a service nothing is slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Sum

from scheduler import models
from scheduler.core.alerts import Metric
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Phase, ReplicaPhase
from scheduler.queries.pool_state import asked_mgpu, is_asleep
from scheduler.queries.unwatched import READ_WITHIN, unwatched

#: Cold starts and latencies that are older say nothing about now.
SERVICE_WITHIN = timedelta(hours=1)
LATENCY_WITHIN = timedelta(minutes=2)
#: What is spent is worked out every five minutes.
SPENT_WITHIN = timedelta(minutes=20)

#: Department, project and pool; None: all of them.
Place = tuple[int | None, int | None, int | None]


@dataclass(slots=True)
class _Cell:
    """What one project has in one pool."""

    department_id: int
    project_id: int
    pool_id: int
    quota_mgpu: int = 0
    held_mgpu: int = 0
    known_mgpu: int = 0
    idle_mgpu: int = 0
    waiting_mgpu: int = 0
    unwatched: int = 0
    waits_since: datetime | None = None
    cold_start_ms: list[int] = field(default_factory=list)
    latency_ms: list[int] = field(default_factory=list)


class Figures:
    """All figures of one instant. Made in ten queries, however many rules there are."""

    def __init__(self, *, now: datetime) -> None:
        self._now = now
        self._cells: dict[tuple[int, int], _Cell] = {}
        self._limits: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self._departments = dict(
            models.Project.objects.filter(deleted_at=None, department__scratch=False).values_list(
                "id", "department_id"
            )
        )
        self._read_quotas()
        self._read_held()
        self._read_unwatched()
        self._read_waiting()
        self._read_services()
        self._budgets = self._read_budgets()

    def value(self, metric: Metric, place: Place) -> int | None:
        """Return the figure over a scope, in the unit of the metric's name; None: not known."""
        cells = list(self._within(place))
        return _FIGURES[metric](self, cells, place)

    # -- reading -----------------------------------------------------------------------------------

    def _cell(self, project_id: int, pool_id: int) -> _Cell | None:
        department_id = self._departments.get(project_id)
        if department_id is None:
            return None
        key = (project_id, pool_id)
        if key not in self._cells:
            self._cells[key] = _Cell(department_id, project_id, pool_id)
        return self._cells[key]

    def _read_quotas(self) -> None:
        for row in models.ProjectQuota.objects.all():
            cell = self._cell(row.project_id, row.pool_id)
            if cell is not None:
                cell.quota_mgpu = row.quota_mgpu
                self._limits["project", row.project_id][row.pool_id] = row.limit_mgpu
        for line in models.DepartmentQuota.objects.filter(department__scratch=False):
            self._limits["department", line.department_id][line.pool_id] = line.limit_mgpu

    def _read_held(self) -> None:
        fresh = self._now - READ_WITHIN
        alive = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
        rows = alive.values_list(
            "workload__project_id", "workload__pool_id", "idle", "sampled_at"
        ).annotate(held=Sum("mgpu"))
        for project_id, pool_id, idle, sampled_at, held in rows:
            cell = self._cell(project_id, pool_id)
            if cell is None:
                continue
            cell.held_mgpu += held
            if idle is not None and sampled_at is not None and sampled_at >= fresh:
                cell.known_mgpu += held
                cell.idle_mgpu += held if idle else 0

    def _read_unwatched(self) -> None:
        found = unwatched(now=self._now)
        for project_id, pool_id in found.values_list("project_id", "pool_id"):
            cell = self._cell(project_id, pool_id)
            if cell is not None:
                cell.unwatched += 1

    def _read_waiting(self) -> None:
        pending = models.Workload.objects.filter(phase=Phase.PENDING, deleted_at=None)
        for row in pending.only(
            "kind", "request_mgpu", "devices", "min_replicas", "desired_replicas", "project_id",
            "pool_id", "phase_since", "phase",
        ):  # fmt: skip
            if is_asleep(row):
                continue
            cell = self._cell(row.project_id, row.pool_id)
            if cell is None:
                continue
            cell.waiting_mgpu += asked_mgpu(row)
            if cell.waits_since is None or row.phase_since < cell.waits_since:
                cell.waits_since = row.phase_since

    def _read_services(self) -> None:
        started = models.WorkloadEvent.objects.filter(
            code="cold_start", at__gte=self._now - SERVICE_WITHIN
        ).values_list("workload__project_id", "workload__pool_id", "params")
        for project_id, pool_id, params in started:
            cell = self._cell(project_id, pool_id)
            if cell is not None and isinstance(params.get("ms"), int):
                cell.cold_start_ms.append(params["ms"])
        points = models.ScalingPoint.objects.filter(
            at__gte=self._now - LATENCY_WITHIN, latency_ms__isnull=False
        ).values_list("workload__project_id", "workload__pool_id", "latency_ms")
        for project_id, pool_id, latency_ms in points:
            cell = self._cell(project_id, pool_id)
            if cell is not None and latency_ms is not None:
                cell.latency_ms.append(latency_ms)

    def _read_budgets(self) -> list[tuple[int, int | None, int]]:
        """Return department, project (None: the department's own) and what is spent, in thousandths."""
        rows = models.Budget.objects.filter(
            spent_permille__isnull=False, spent_at__gte=self._now - SPENT_WITHIN
        ).values_list("department_id", "project_id", "spent_permille")
        living = set(self._departments.values())
        found: list[tuple[int, int | None, int]] = []
        for department_id, project_id, permille in rows:
            of_id = department_id or self._departments.get(project_id or 0)
            if of_id is not None and permille is not None and of_id in living:
                found.append((of_id, project_id, permille))
        return found

    def _within(self, place: Place) -> Iterable[_Cell]:
        department_id, project_id, pool_id = place
        for cell in self._cells.values():
            if department_id is not None and cell.department_id != department_id:
                continue
            if project_id is not None and cell.project_id != project_id:
                continue
            if pool_id is None or cell.pool_id == pool_id:
                yield cell

    # -- figures -----------------------------------------------------------------------------------

    def _unmet(self, cells: list[_Cell], place: Place) -> int:
        """Guaranteed, asked for and not held: of each project the lesser of the two."""
        return sum(
            min(max(0, cell.quota_mgpu - cell.held_mgpu), cell.waiting_mgpu) for cell in cells
        )

    def _idle(self, cells: list[_Cell], place: Place) -> int | None:
        known = sum(cell.known_mgpu for cell in cells)
        return 1000 * sum(cell.idle_mgpu for cell in cells) // known if known else None

    def _unwatched(self, cells: list[_Cell], place: Place) -> int:
        return sum(cell.unwatched for cell in cells)

    def _wait(self, cells: list[_Cell], place: Place) -> int:
        since = min((cell.waits_since for cell in cells if cell.waits_since), default=None)
        return 0 if since is None else max(0, int((self._now - since).total_seconds()))

    def _limit(self, cells: list[_Cell], place: Place) -> int | None:
        """The fullest unit of the scope: what it holds of its limit. None: nothing has a limit."""
        _department_id, project_id, _pool_id = place
        held: dict[tuple[str, int, int], int] = defaultdict(int)
        for cell in cells:
            held["project", cell.project_id, cell.pool_id] += cell.held_mgpu
            if project_id is None:
                held["department", cell.department_id, cell.pool_id] += cell.held_mgpu
        found = []
        for (level, unit_id, at_pool), held_mgpu in held.items():
            limit_mgpu = self._limits[level, unit_id].get(at_pool, UNLIMITED_MGPU)
            if 0 < limit_mgpu < UNLIMITED_MGPU:
                found.append(1000 * held_mgpu // limit_mgpu)
        return max(found, default=None)

    def _budget(self, cells: list[_Cell], place: Place) -> int | None:
        """The fullest budget of the scope: what the running month has spent of it. None: there is none."""
        department_id, project_id, _pool_id = place
        return max(
            (
                permille
                for of_id, of_project_id, permille in self._budgets
                if department_id in (None, of_id) and project_id in (None, of_project_id)
            ),
            default=None,
        )

    def _cold(self, cells: list[_Cell], place: Place) -> int | None:
        return max((ms for cell in cells for ms in cell.cold_start_ms), default=None)

    def _latency(self, cells: list[_Cell], place: Place) -> int | None:
        return max((ms for cell in cells for ms in cell.latency_ms), default=None)


_FIGURES: dict[Metric, Callable[[Figures, list[_Cell], Place], int | None]] = {
    Metric.UNMET_GUARANTEE_MGPU: Figures._unmet,
    Metric.IDLE_SHARE_PERMILLE: Figures._idle,
    Metric.LONGEST_WAIT_S: Figures._wait,
    Metric.LIMIT_USED_PERMILLE: Figures._limit,
    Metric.COLD_START_MS: Figures._cold,
    Metric.LATENCY_MS: Figures._latency,
    Metric.BUDGET_SPENT_PERMILLE: Figures._budget,
    Metric.UNWATCHED_WORKLOADS: Figures._unwatched,
}
