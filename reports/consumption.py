"""The consumption report: who held, was guaranteed, borrowed and left idle how much in a period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from django.utils.translation import gettext as _

from reports.periods import Bucket, Slot, Span, divide, previous_span
from reports.refused import ReportRefused
from scheduler.core.instants import to_us
from scheduler.core.usage import NOTHING, Figures, sum_figures
from scheduler.queries import usage, usage_names
from scheduler.queries.usage_facts import EVERYTHING, UsageFilter, WorkKey
from scheduler.queries.usage_names import ClusterFacts, Names, UnitName
from scheduler.queries.visibility import Visibility

MAX_ROWS = 250_000


class Segment(StrEnum):
    """Of what a report has rows."""

    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"
    POOL = "pool"
    WORKLOAD = "workload"
    USER = "user"


#: Of these single pieces of work are told apart, and work has no guarantee of its own.
OF_WORK = frozenset({Segment.WORKLOAD, Segment.USER})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """What is asked for."""

    span: Span
    segment: Segment = Segment.PROJECT
    bucket: Bucket = Bucket.WHOLE
    wanted: UsageFilter = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a row is about. ``id`` is what hours follow; the name is its label as of now."""

    id: str
    name: str
    department_id: int = 0
    department: str = ""
    color: int = 0
    #: What it was called in the period or since, and is not any more.
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One unit in one slot."""

    unit: Unit
    slot: Slot
    figures: Figures
    #: Held beyond the departments' own guarantees; None: not told on this row.
    beyond: int | None
    #: False: only a part of the unit's work is counted, and figures of a guarantee say nothing.
    guaranteed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report as it was made."""

    request: ReportRequest
    slots: tuple[Slot, ...]
    #: By slot, then by name.
    rows: tuple[Row, ...]
    #: Each unit over the whole period, by name.
    units: tuple[Row, ...]
    total: Row
    cluster: ClusterFacts
    made_at: datetime
    #: The filters in words, empty for none.
    filters: str


_Parts = Mapping[Unit, Sequence[Figures]]
_Beyond = Mapping[Unit, Sequence[int]]


def make_report(*, visible: Visibility, request: ReportRequest, now: datetime) -> Report:
    """Return the report of what ``visible`` holds; totals too are of that only.

    Raises:
        ReportRefused: too many rows.
    """
    slots = divide(span=request.span, bucket=request.bucket)
    cuts = [slot.from_us for slot in slots] + [slots[-1].to_us]
    names = usage_names.read_names(visible=visible).as_of(request.span.from_at)
    guaranteed = not request.wanted.parts_of_queues and request.segment not in OF_WORK
    if guaranteed:
        parts, beyond = _by_queue(visible, request, cuts, names, to_us(now))
    else:
        parts, beyond = _by_work(visible, request, cuts, names, to_us(now)), {}
    if len(parts) * len(slots) > MAX_ROWS:
        raise ReportRefused(
            _("That is more than 250,000 rows. Choose a longer step or a shorter period.")
        )
    order = sorted(parts, key=lambda unit: (unit.department, unit.name, unit.id))
    whole = Slot(from_us=cuts[0], to_us=cuts[-1], label="")
    units = tuple(
        Row(
            unit=unit,
            slot=whole,
            figures=sum_figures(rows=parts[unit]),
            beyond=sum(beyond[unit]) if unit in beyond else None,
            guaranteed=guaranteed,
        )
        for unit in order
    )
    units = tuple(row for row in units if row.figures != NOTHING)
    return Report(
        request=request,
        slots=slots,
        rows=tuple(_rows([row.unit for row in units], parts, beyond, slots, guaranteed)),
        units=units,
        total=_total(visible, request, units, whole, guaranteed),
        cluster=usage_names.read_cluster_facts(),
        made_at=now,
        filters=describe_filters(wanted=request.wanted, names=names),
    )


def make_previous(*, visible: Visibility, request: ReportRequest, now: datetime) -> Report:
    """Return the report of the period before, over the whole of it."""
    before = replace(request, span=previous_span(span=request.span), bucket=Bucket.WHOLE)
    return make_report(visible=visible, request=before, now=now)


def _rows(
    units: Sequence[Unit],
    parts: _Parts,
    beyond: _Beyond,
    slots: Sequence[Slot],
    guaranteed: bool,  # noqa: FBT001
) -> Iterable[Row]:
    for at, slot in enumerate(slots):
        for unit in units:
            figures = parts[unit][at]
            if figures != NOTHING:
                yield Row(
                    unit=unit,
                    slot=slot,
                    figures=figures,
                    beyond=beyond[unit][at] if unit in beyond else None,
                    guaranteed=guaranteed,
                )


def _total(
    visible: Visibility,
    request: ReportRequest,
    units: Sequence[Row],
    whole: Slot,
    guaranteed: bool,  # noqa: FBT001
) -> Row:
    told = [row.beyond for row in units if row.beyond is not None]
    all_told = guaranteed and visible.cluster and len(told) == len(units)
    return Row(
        unit=Unit(id="", name=_("Total")),
        slot=whole,
        figures=sum_figures(rows=[row.figures for row in units]),
        beyond=sum(told) if all_told and request.segment is not Segment.PROJECT else None,
        guaranteed=guaranteed,
    )


# --- From keys of the ledger to units -------------------------------------------------------------


def _by_queue(
    visible: Visibility,
    request: ReportRequest,
    cuts: Sequence[int],
    names: Names,
    now_us: int,
) -> tuple[_Parts, _Beyond]:
    found = usage.read_queue_usage(visible=visible, cuts=cuts, now_us=now_us, wanted=request.wanted)
    unit_of = _UNIT_OF_QUEUE[request.segment]
    parts: dict[Unit, list[list[Figures]]] = defaultdict(list)
    for key, rows in found.queues.items():
        parts[unit_of(key, names)].append(rows)
    beyond: dict[Unit, list[int]] = {}
    if request.segment is Segment.DEPARTMENT or (
        request.segment is Segment.CLUSTER and visible.cluster
    ):
        for (department_id, pool_id), values in found.beyond.items():
            unit = unit_of(usage.QueueKey(0, department_id, pool_id), names)
            before = beyond.get(unit, [0] * len(values))
            beyond[unit] = [a + b for a, b in zip(before, values, strict=True)]
    return _added(parts), beyond


def _by_work(
    visible: Visibility,
    request: ReportRequest,
    cuts: Sequence[int],
    names: Names,
    now_us: int,
) -> _Parts:
    found = usage.read_work_usage(visible=visible, cuts=cuts, now_us=now_us, wanted=request.wanted)
    parts: dict[Unit, list[list[Figures]]] = defaultdict(list)
    labels: Mapping[int, str] = {}
    if request.segment is Segment.WORKLOAD:
        labels = usage_names.read_workload_names(ids={key.workload_id for key in found})
    for key, rows in found.items():
        parts[_unit_of_work(key, request.segment, names, labels)].append(rows)
    return _added(parts)


def _added(parts: Mapping[Unit, list[list[Figures]]]) -> _Parts:
    return {
        unit: lists[0]
        if len(lists) == 1
        else [sum_figures(rows=slot) for slot in zip(*lists, strict=True)]
        for unit, lists in parts.items()
    }


def _unit_of_work(key: WorkKey, segment: Segment, names: Names, labels: Mapping[int, str]) -> Unit:
    if segment is Segment.USER:
        return Unit(id=key.user, name=key.user or _("(no one)"))
    if segment is Segment.WORKLOAD:
        return Unit(
            id=str(key.workload_id),
            name=labels.get(key.workload_id, str(key.workload_id)),
            department_id=key.department_id,
            department=label(names.departments.get(key.department_id), key.department_id),
            color=_color(names, key.project_id),
        )
    queue = usage.QueueKey(key.project_id, key.department_id, key.pool_id)
    return _UNIT_OF_QUEUE[segment](queue, names)


def _cluster(key: usage.QueueKey, names: Names) -> Unit:
    return Unit(id="cluster", name=_("Cluster"))


def _department(key: usage.QueueKey, names: Names) -> Unit:
    return Unit(
        id=str(key.department_id),
        name=label(names.departments.get(key.department_id), key.department_id),
        department_id=key.department_id,
        former=_former(names.departments.get(key.department_id)),
    )


def _project(key: usage.QueueKey, names: Names) -> Unit:
    return Unit(
        id=str(key.project_id),
        name=label(names.projects.get(key.project_id), key.project_id),
        department_id=key.department_id,
        department=label(names.departments.get(key.department_id), key.department_id),
        color=_color(names, key.project_id),
        former=_former(names.projects.get(key.project_id)),
    )


def _pool(key: usage.QueueKey, names: Names) -> Unit:
    return Unit(id=str(key.pool_id), name=label(names.pools.get(key.pool_id), key.pool_id))


_UNIT_OF_QUEUE: dict[Segment, Callable[[usage.QueueKey, Names], Unit]] = {
    Segment.CLUSTER: _cluster,
    Segment.DEPARTMENT: _department,
    Segment.PROJECT: _project,
    Segment.POOL: _pool,
}


def _former(found: UnitName | None) -> tuple[str, ...]:
    """Return other names that a unit had, each once."""
    told = () if found is None else found.former
    return tuple(dict.fromkeys(one.name for one in told if found and one.name != found.name))


def _color(names: Names, project_id: int) -> int:
    found = names.projects.get(project_id)
    return found.color if found else 0


def label(found: UnitName | None, id_: int) -> str:
    """Return a unit's name; a deleted one's tells since when it is gone."""
    if found is None:
        return f"#{id_}"
    if found.deleted_at is None:
        return found.name
    return _("{name} (deleted {date})").format(name=found.name, date=f"{found.deleted_at:%Y-%m-%d}")


def describe_filters(*, wanted: UsageFilter, names: Names) -> str:
    """Return the filters as "department=a|b; kind=training", empty for none."""
    chosen = {
        "department": [label(names.departments.get(i), i) for i in sorted(wanted.department_ids)],
        "project": [label(names.projects.get(i), i) for i in sorted(wanted.project_ids)],
        "pool": [label(names.pools.get(i), i) for i in sorted(wanted.pool_ids)],
        "kind": sorted(wanted.kinds),
        "workload": [str(i) for i in sorted(wanted.workload_ids)],
        "user": sorted(wanted.users),
    }
    return "; ".join(f"{name}={'|'.join(values)}" for name, values in chosen.items() if values)
