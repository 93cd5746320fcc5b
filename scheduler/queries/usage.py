"""What queues and workloads consumed: the ledger's rows added up to exact figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from scheduler.core.usage import NAMES, Figures, Meter
from scheduler.queries import usage_blocks, usage_facts
from scheduler.queries.usage_blocks import BlockKey
from scheduler.queries.usage_facts import EVERYTHING, Period, UsageFilter, WorkKey
from scheduler.queries.visibility import Visibility


class QueueKey(NamedTuple):
    """One project in one pool, within the department it belonged to at the time."""

    project_id: int
    department_id: int
    pool_id: int


#: Of each slot between two cuts.
Rows = list[Figures]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """Figures of projects by slot, and what departments held beyond their own guarantees."""

    queues: dict[QueueKey, Rows]
    #: (department id, pool id) to milli-GPU-microseconds by slot; only whole departments.
    beyond: dict[tuple[int, int], list[int]]


class _Meters(dict[Key, Meter]):
    """A meter for each key that is met."""

    def __init__(self, cuts: Sequence[int]) -> None:
        super().__init__()
        self._cuts = cuts

    def __missing__(self, key: Key) -> Meter:
        meter = self[key] = Meter(cuts=self._cuts)
        return meter


def read_queue_usage(
    *,
    visible: Visibility,
    cuts: Sequence[int],
    now_us: int,
    wanted: UsageFilter = EVERYTHING,
) -> QueueUsage:
    """Return the figures of every project and pool for each [cuts[i], cuts[i+1]).

    Whole hours that are rolled up come from their blocks, all else from the intervals; both are
    exact. A filter on work leaves out other work, and then the guarantee means nothing: see
    ``read_work_usage``. Five queries, and six for each part between rolled-up stretches.
    """
    division = usage_blocks.divide(cuts=cuts, until_us=usage_blocks.rolled_until())
    if not division.stretches:
        return read_raw_usage(visible=visible, cuts=cuts, now_us=now_us, wanted=wanted)
    slots = len(cuts) - 1
    sums = usage_blocks.read_blocks(
        visible=visible, wanted=wanted, stretches=division.stretches, slots=slots
    )
    for left in division.leftovers:
        raw = read_raw_usage(visible=visible, cuts=left.cuts, now_us=now_us, wanted=wanted)
        _add_raw(raw, left.slots, sums, slots)
    whole = _whole_departments(visible, wanted)
    over = NAMES.index("over_quota")
    return QueueUsage(
        queues={
            QueueKey(key.project_id, key.department_id, key.pool_id): [
                Figures(**dict(zip(NAMES, values, strict=True))) for values in rows
            ]
            for key, rows in sums.items()
            if key.project_id is not None
        },
        beyond={
            (key.department_id, key.pool_id): [values[over] for values in rows]
            for key, rows in sums.items()
            if key.project_id is None and whole(key.department_id)
        },
    )


def _add_raw(
    raw: QueueUsage,
    raw_slots: Sequence[int | None],
    sums: dict[BlockKey, list[list[int]]],
    slots: int,
) -> None:
    rows = [(BlockKey(*key), figures) for key, figures in raw.queues.items()]
    rows += [
        (BlockKey(None, *key), [Figures(over_quota=value) for value in values])
        for key, values in raw.beyond.items()
    ]
    for key, figures in rows:
        if key not in sums:
            sums[key] = [[0] * len(NAMES) for _ in range(slots)]
        for slot, row in zip(raw_slots, figures, strict=True):
            if slot is None:
                continue
            into = sums[key][slot]
            for at, value in enumerate(row.values()):
                into[at] += value


def read_raw_usage(
    *,
    visible: Visibility,
    cuts: Sequence[int],
    now_us: int,
    wanted: UsageFilter = EVERYTHING,
) -> QueueUsage:
    """Return the same from the intervals alone. Six queries."""
    assert not wanted.parts_of_queues, "a guarantee is not divided among work"
    period = Period(from_us=cuts[0], to_us=cuts[-1], now_us=now_us)
    queues: _Meters[QueueKey] = _Meters(cuts)
    departments: _Meters[tuple[int, int]] = _Meters(cuts)
    whole = _whole_departments(visible, wanted)
    for held in usage_facts.allocations(visible=visible, wanted=wanted, period=period):
        queues[QueueKey(*held.work[3:])].hold(
            step=held.step,
            cpu_milli=held.cpu_milli,
            memory_mib=held.memory_mib,
            prices=held.prices,
        )
        if whole(held.work.department_id):
            departments[(held.work.department_id, held.work.pool_id)].hold(step=held.step)
    for one in usage_facts.guarantees(visible=visible, wanted=wanted, period=period):
        if one.project_id is not None:
            key = QueueKey(one.project_id, one.department_id, one.pool_id)
            queues[key].guarantee(step=one.step)
        elif whole(one.department_id):
            departments[(one.department_id, one.pool_id)].guarantee(step=one.step)
    for seen in usage_facts.activity(visible=visible, wanted=wanted, period=period):
        queues[QueueKey(*seen.work[3:])].measure(step=seen.step, idle=seen.idle, prices=seen.prices)
    for used in usage_facts.compute_use(visible=visible, wanted=wanted, period=period):
        _use(queues[QueueKey(*used.work[3:])], used)
    return QueueUsage(
        queues={key: meter.rows() for key, meter in queues.items()},
        beyond={
            key: [row.over_quota for row in meter.rows()] for key, meter in departments.items()
        },
    )


def read_work_usage(
    *,
    visible: Visibility,
    cuts: Sequence[int],
    now_us: int,
    wanted: UsageFilter = EVERYTHING,
) -> dict[WorkKey, Rows]:
    """Return the figures of every workload for each [cuts[i], cuts[i+1]).

    Work has no guarantee of its own: the figures that rest on one say nothing here. Five queries.
    """
    period = Period(from_us=cuts[0], to_us=cuts[-1], now_us=now_us)
    work: _Meters[WorkKey] = _Meters(cuts)
    for held in usage_facts.allocations(visible=visible, wanted=wanted, period=period):
        work[held.work].hold(
            step=held.step,
            cpu_milli=held.cpu_milli,
            memory_mib=held.memory_mib,
            prices=held.prices,
        )
    for seen in usage_facts.activity(visible=visible, wanted=wanted, period=period):
        work[seen.work].measure(step=seen.step, idle=seen.idle, prices=seen.prices)
    for used in usage_facts.compute_use(visible=visible, wanted=wanted, period=period):
        _use(work[used.work], used)
    return {key: meter.rows() for key, meter in work.items()}


def _use(meter: Meter, used: usage_facts.Used) -> None:
    meter.use(
        from_us=used.from_us,
        to_us=used.to_us,
        cpu_used=used.cpu_used,
        memory_used=used.memory_used,
    )


def _whole_departments(visible: Visibility, wanted: UsageFilter) -> Callable[[int], bool]:
    """Return the test whether all of a department's hours are being read."""
    if wanted.project_ids:
        return lambda department_id: False
    if visible.cluster:
        return lambda department_id: True
    return visible.department_ids.__contains__


def read_work_total(
    *,
    visible: Visibility,
    cuts: Sequence[int],
    now_us: int,
    wanted: UsageFilter = EVERYTHING,
) -> Rows:
    """Return what all work together held and left idle for each [cuts[i], cuts[i+1])."""
    period = Period(from_us=cuts[0], to_us=cuts[-1], now_us=now_us)
    meter = Meter(cuts=cuts)
    for held in usage_facts.allocations(visible=visible, wanted=wanted, period=period):
        meter.hold(step=held.step)
    for seen in usage_facts.activity(visible=visible, wanted=wanted, period=period):
        meter.measure(step=seen.step, idle=seen.idle)
    return meter.rows()
