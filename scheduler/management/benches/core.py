"""``bench core``: full cycles, growth with what waits and with nodes, reclaim, filling."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Collection, Iterator

from scheduler.core.cycle import decide, settle
from scheduler.core.kept import Kept, differing_parts
from scheduler.core.snapshot import Policy, Snapshot
from scheduler.management.benches.live import LivePool
from scheduler.management.benches.measure import (
    LIMIT_S,
    TookTooLong,
    cpu_seconds,
    exponent,
    limited,
)
from scheduler.management.benches.pools import (
    NOW_US,
    PoolSize,
    carry_out,
    let_end,
    make_fill,
    make_pool,
    make_takeover,
)
from scheduler.management.benches.table import Row

ABOUT = "cycles of the core, in CPU seconds, best of three (goals 1 to 7)"

POLICY = Policy()
#: KAI-Scheduler's allocate alone, in seconds, by (nodes, jobs): its own published measurements.
KAI_FILL_S = {(100, 800): 0.54, (500, 4000): 6.9, (1000, 8000): 21.0, (1000, 16000): 105.7}
#: KAI-Scheduler's full cycle on 100 nodes with 800 to reclaim, in seconds.
KAI_RECLAIM_S = 17.4
#: Small cycles of a kept state before any is measured, and how many then are.
_WARM_UP, _CYCLES = 4, 9


def run(*, goals: Collection[int] = ()) -> Iterator[Row]:
    """Measure and yield the rows of ``goals``, of all where none is named."""
    for number, measure in _GOALS:
        if goals and number not in goals:
            continue
        try:
            with limited():
                yield from measure()
        except TookTooLong:
            yield Row(
                what=f"{number} stopped", value=LIMIT_S, passed=False, note="took longer than this"
            )


def _decide(snapshot: Snapshot) -> Callable[[], object]:
    return lambda: decide(snapshot=snapshot, policy=POLICY, now_us=NOW_US)


def steady_pool(*, nodes: int, waiting: int) -> Snapshot:
    """Return a pool as it stands in service: settled, then down to 81 % as work ended."""
    pool = make_pool(PoolSize(nodes=nodes, waiting=waiting))
    plan = settle(snapshot=pool, policy=POLICY, now_us=NOW_US)
    return let_end(carry_out(pool, plan, now_us=NOW_US), down_to_percent=81, seed=1)


def _full_cycle() -> Iterator[Row]:
    pool = steady_pool(nodes=1000, waiting=50_000)
    running = sum(len(each.replicas) for each in pool.workloads)
    waiting = sum(1 for each in pool.workloads if not each.replicas)
    took = cpu_seconds(_decide(pool))
    yield Row(
        what="1 full cycle, 1,000 nodes",
        value=took,
        goal="<= 0.25",
        passed=took <= 0.25,
        note=f"{running:,} running, {waiting:,} waiting",
    )


def _by_waiting() -> Iterator[Row]:
    points = []
    for waiting in (1_000, 10_000, 100_000):
        pool = steady_pool(nodes=300, waiting=waiting)
        points.append((float(waiting), cpu_seconds(_decide(pool))))
    yield _slope("2 growth with 1k, 10k, 100k waiting", points, "<= 1.1", 1.1)


def _by_nodes() -> Iterator[Row]:
    points = []
    for nodes in (100, 1_000, 10_000):
        pool = make_fill(nodes=nodes, waiting=10_000, projects=200)
        points.append((float(nodes), cpu_seconds(_decide(pool))))
    yield _slope("3 growth with 100, 1k, 10k nodes", points, "<= 0.5", 0.5)


def _small_changes() -> Iterator[Row]:
    for count, most in ((100, 0.015), (1, 0.003)):
        seconds, same = _kept_cycles(nodes=1000, waiting=50_000, count=count)
        plans = "" if same else "; NOT the plan of a full cycle"
        yield Row(
            what=f"4 kept: {count} end and {count} come, 50,000 waiting",
            value=seconds,
            goal=f"<= {most}",
            passed=seconds <= most and same,
            note=f"median of {_CYCLES} cycles{plans}",
        )
    points = []
    for waiting in (1_000, 10_000, 50_000):
        seconds, _ = _kept_cycles(nodes=300, waiting=waiting, count=10)
        points.append((float(waiting), seconds))
    yield _slope("4 growth of that with 1k, 10k, 50k waiting", points, "<= 0.3", 0.3)


def _kept_cycles(*, nodes: int, waiting: int, count: int) -> tuple[float, bool]:
    """Return the median time of small cycles on a settled pool, and whether the last plan is that of a
    full cycle.
    """
    size = PoolSize(nodes=nodes, waiting=waiting)
    pool = make_pool(size)
    settled = settle(snapshot=pool, policy=POLICY, now_us=NOW_US)
    live = LivePool(carry_out(pool, settled, now_us=NOW_US), size)
    kept = Kept(live.snapshot(), policy=POLICY, now_us=NOW_US)
    live.carry_out(kept.decide())
    times, same = [], True
    for number in range(_WARM_UP + _CYCLES):
        change = live.step(count)
        gc.collect()
        began = time.process_time()
        kept.advance(change, now_us=live.now_us)
        plan = kept.decide()
        if number >= _WARM_UP:
            times.append(time.process_time() - began)
        if number == _WARM_UP + _CYCLES - 1:
            anew = decide(snapshot=live.snapshot(), policy=POLICY, now_us=live.now_us)
            same = not differing_parts(plan, anew)
        live.carry_out(plan)
    return statistics.median(times), same


def _reclaim_singles() -> Iterator[Row]:
    took = cpu_seconds(_decide(make_takeover(nodes=100)))
    yield Row(
        what="5 reclaim, 100 nodes, 800 singles",
        value=took,
        goal="<= 0.1",
        passed=took <= 0.1,
        note=f"KAI's full cycle: {KAI_RECLAIM_S} s, {KAI_RECLAIM_S / took:.0f} x",
    )


def _reclaim_many() -> Iterator[Row]:
    filling = cpu_seconds(_decide(make_fill(nodes=500, waiting=4000)))
    taking = cpu_seconds(_decide(make_takeover(nodes=500)))
    yield Row(
        what="6 reclaim of 4,000 singles / filling them",
        value=taking / filling,
        unit="x",
        goal="<= 2",
        passed=taking <= 2 * filling,
        note=f"{taking:.3f} s / {filling:.3f} s",
    )
    points = [
        (float(nodes), cpu_seconds(_decide(make_takeover(nodes=nodes, claim_nodes=nodes))))
        for nodes in (100, 300, 1_000)
    ]
    took = points[-1][1]
    yield Row(
        what="6 reclaim by one gang over 1,000 nodes",
        value=took,
        goal="<= 1",
        passed=took <= 1,
    )
    yield _slope("6 growth of that with 100, 300, 1k nodes", points, "<= 1.2", 1.2)


def _fills() -> Iterator[Row]:
    for (nodes, jobs), theirs in KAI_FILL_S.items():
        projects = 200 if jobs == 16_000 else 1
        took = cpu_seconds(_decide(make_fill(nodes=nodes, waiting=jobs, projects=projects)))
        yield Row(
            what=f"7 fill {nodes:,} nodes with {jobs:,} jobs",
            value=theirs / took,
            unit="x",
            goal=">= 50",
            passed=theirs >= 50 * took,
            note=f"{took:.3f} s; KAI's allocate: {theirs} s",
        )


def _slope(what: str, points: list[tuple[float, float]], goal: str, most: float) -> Row:
    slope = exponent(points)
    costs = ", ".join(f"{cost:.3f}" for _, cost in points)
    return Row(what=what, value=slope, unit="", goal=goal, passed=slope <= most, note=f"{costs} s")


_GOALS: tuple[tuple[int, Callable[[], Iterator[Row]]], ...] = (
    (1, _full_cycle),
    (2, _by_waiting),
    (3, _by_nodes),
    (4, _small_changes),
    (5, _reclaim_singles),
    (6, _reclaim_many),
    (7, _fills),
)
