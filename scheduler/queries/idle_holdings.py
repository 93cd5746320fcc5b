"""Which holdings are idle now, whose, since when, what they cost, and which rules are in force."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Prefetch

from scheduler import models
from scheduler.core import idle as core
from scheduler.core.idle import Reading, RuleKind, Watched
from scheduler.core.instants import optional_us, to_us
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import HOLDING_PHASES, Kind, ReplicaPhase
from scheduler.queries.prices import prices_at
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRow:
    """One workload whose devices show no activity."""

    workload_id: int
    name: str
    project_id: int
    project_name: str
    department_id: int
    color: int
    kind: str
    owner: str
    held_mgpu: int
    idle_s: int
    idle_since: datetime
    #: Seconds of its rule, and until it is stopped; None: there is no rule for it.
    limit_s: int | None
    left_s: int | None
    warned_percent: int
    kept_at: datetime | None
    owner_may_keep: bool
    #: What the idle time has cost so far; None where no price is set.
    cost: Decimal | None
    is_service: bool

    @property
    def permille(self) -> int:
        """Return how much of the limit is used up."""
        if not self.limit_s:
            return 0
        return min(1000, 1000 * self.idle_s // self.limit_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """The rule for one kind of work in a department or project; ``None`` limits: none from here."""

    kind: RuleKind
    idle_limit_s: int | None
    runtime_limit_s: int | None
    owner_may_keep: bool
    #: What the department of a project allows.
    outer_idle_s: int | None = None
    outer_runtime_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUnit:
    """A department or project with its rules, one row a kind."""

    is_department: bool
    id: int
    name: str
    color: int
    department_id: int
    rules: tuple[RuleRow, ...]


def list_idle(*, visible: Visibility, now: datetime) -> tuple[IdleRow, ...]:
    """Return idle holdings, the most GPU time first. Four queries."""
    prices = prices_at(now)
    alive = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).prefetch_related(
        "holdings__device"
    )
    workloads = (
        models.Workload.objects.filter(
            visible.projects(prefix="project__"), phase__in=HOLDING_PHASES, deleted_at=None
        )
        .select_related("project")
        .prefetch_related(Prefetch("replicas", queryset=alive, to_attr="alive"))
        .order_by("id")
    )
    rows = [row for row in (_row(each, prices, now) for each in workloads) if row is not None]
    return tuple(sorted(rows, key=lambda row: (-row.held_mgpu * row.idle_s, row.workload_id)))


def list_rules(*, visible: Visibility) -> tuple[RuleUnit, ...]:
    """Return departments and projects with their rules, each department before its projects."""
    rules: dict[tuple[str, int], dict[str, models.IdlePolicy]] = defaultdict(dict)
    for row in models.IdlePolicy.objects.all():
        if row.department_id is not None:
            rules["department", row.department_id][row.kind] = row
        elif row.project_id is not None:
            rules["project", row.project_id][row.kind] = row
    projects: dict[int, list[models.Project]] = defaultdict(list)
    for project in models.Project.objects.filter(visible.projects(), deleted_at=None).order_by(
        "id"
    ):
        projects[project.department_id].append(project)
    units: list[RuleUnit] = []
    departments = models.Department.objects.filter(visible.departments(), deleted_at=None)
    for department in departments.distinct().order_by("id"):
        if visible.cluster or department.pk in visible.department_ids:
            units.append(
                RuleUnit(
                    is_department=True,
                    id=department.pk,
                    name=department.name,
                    color=0,
                    department_id=department.pk,
                    rules=_rules(rules["department", department.pk]),
                )
            )
        units.extend(
            RuleUnit(
                is_department=False,
                id=project.pk,
                name=project.name,
                color=project.color,
                department_id=project.department_id,
                rules=_rules(
                    rules["project", project.pk], outer=rules["department", department.pk]
                ),
            )
            for project in projects[department.pk]
        )
    return tuple(units)


def _rules(
    found: dict[str, models.IdlePolicy], *, outer: dict[str, models.IdlePolicy] | None = None
) -> tuple[RuleRow, ...]:
    rows = []
    for kind in RuleKind:
        row = found.get(kind)
        above = (outer or {}).get(kind)
        rows.append(
            RuleRow(
                kind=kind,
                idle_limit_s=row.idle_limit_s if row else None,
                runtime_limit_s=row.runtime_limit_s if row else None,
                owner_may_keep=row.owner_may_keep if row else True,
                outer_idle_s=above.idle_limit_s if above else None,
                outer_runtime_s=above.runtime_limit_s if above else None,
            )
        )
    return tuple(rows)


def _row(workload: models.Workload, prices: dict[str, Decimal], now: datetime) -> IdleRow | None:
    replicas: list[models.Replica] = workload.alive  # type: ignore[attr-defined]
    held_mgpu = sum(replica.mgpu for replica in replicas)
    watched = Watched(
        limits=core.Limits(idle_limit_s=workload.idle_limit_s),
        readings=[
            Reading(
                idle=replica.idle,
                idle_since_us=optional_us(replica.idle_since),
                read_at_us=optional_us(replica.sampled_at),
            )
            for replica in replicas
        ],
        running_since_us=optional_us(workload.running_since),
        kept_at_us=optional_us(workload.kept_at),
        warned_percent=workload.idle_warned_percent,
    )
    judgment = core.judge(watched=watched, now_us=to_us(now))
    if not held_mgpu or judgment.idle_s is None or judgment.idle_s < 1:
        return None
    return IdleRow(
        workload_id=workload.pk,
        name=workload.name,
        project_id=workload.project_id,
        project_name=workload.project.name,
        department_id=workload.project.department_id,
        color=workload.project.color,
        kind=workload.kind,
        owner=workload.submitted_by,
        held_mgpu=held_mgpu,
        idle_s=judgment.idle_s,
        idle_since=now - timedelta(seconds=judgment.idle_s),
        limit_s=workload.idle_limit_s,
        left_s=judgment.left_s,
        warned_percent=workload.idle_warned_percent,
        kept_at=workload.kept_at,
        owner_may_keep=workload.owner_may_keep,
        cost=_cost(replicas, prices, judgment.idle_s),
        is_service=workload.kind == Kind.INFERENCE,
    )


def _cost(
    replicas: list[models.Replica], prices: dict[str, Decimal], idle_s: int
) -> Decimal | None:
    if not prices:
        return None
    an_hour = sum(
        (
            prices.get(held.device.model, prices.get("", Decimal(0))) * held.mgpu
            for replica in replicas
            for held in replica.holdings.all()
        ),
        Decimal(0),
    )
    return an_hour * idle_s / WHOLE_GPU_MGPU / 3600
