"""One trace through the core in simulated time: allocation, waiting, evictions, fragmentation."""

from __future__ import annotations

import statistics
import time
from copy import copy
from dataclasses import dataclass

from scheduler.core.simulation import US, SimulatedPool, Work
from scheduler.core.snapshot import Policy
from scheduler.management.simulation.traces import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The figures of one run. Percentages are of the pool, over the time in which work arrived."""

    policy: str
    jobs: int
    nodes: int
    cycles: int
    allocated_percent: float
    #: Free although something waited.
    idle_waited_percent: float
    #: Free on devices that were partly held.
    broken_percent: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    #: Until the last work ended.
    makespan_s: float
    interruptions: int
    #: What could never start, as the pool is too small for it.
    never_started: int
    cpu_s: float


def replay(trace: Trace, *, nodes: int, spread: bool, every_s: int) -> Replayed:
    """Play ``trace`` on a pool of ``nodes`` nodes, a cycle at most every ``every_s`` seconds."""
    began = time.process_time()
    pool = SimulatedPool(trace.frame(nodes=nodes), policy=Policy(spread=spread))
    coming = [copy(work) for work in reversed(trace.work)]
    first_us = trace.work[0].workload.submitted_at_us
    last_us = trace.work[-1].workload.submitted_at_us
    pool.pass_time(to_us=first_us)
    pool.totals = type(pool.totals)()
    loaded = copy(pool.totals)
    now_us = first_us
    while (next_us := _next_us(pool, coming)) is not None:
        now_us = max(now_us, -(-next_us // (every_s * US)) * every_s * US)
        if now_us > last_us and not loaded.capacity:
            pool.pass_time(to_us=max(last_us, first_us + 1))
            loaded = copy(pool.totals)
        pool.pass_time(to_us=now_us)
        while coming and coming[-1].workload.submitted_at_us <= now_us:
            pool.add(coming.pop())
        pool.decide()
    waits = _waits_s(pool.done)
    share = 100 / max(1, loaded.capacity)
    return Replayed(
        policy="spread" if spread else "binpack",
        jobs=len(trace.work),
        nodes=nodes,
        cycles=pool.totals.cycles,
        allocated_percent=loaded.held * share,
        idle_waited_percent=loaded.idle_waited * share,
        broken_percent=loaded.broken * share,
        wait_mean_s=statistics.fmean(waits),
        wait_p50_s=_percentile(waits, 50),
        wait_p95_s=_percentile(waits, 95),
        makespan_s=(now_us - first_us) / US,
        interruptions=pool.totals.interruptions,
        never_started=len(pool.live),
        cpu_s=time.process_time() - began,
    )


def _next_us(pool: SimulatedPool, coming: list[Work]) -> int | None:
    arrival_us = coming[-1].workload.submitted_at_us if coming else None
    known = [each for each in (arrival_us, pool.next_end_us) if each is not None]
    return min(known, default=None)


def _waits_s(done: list[Work]) -> list[float]:
    return sorted(
        (work.first_started_at_us - work.workload.submitted_at_us) / US
        for work in done
        if work.first_started_at_us is not None
    ) or [0.0]


def _percentile(values: list[float], percent: int) -> float:
    """Return the value that ``percent`` in a hundred do not exceed; ``values`` are sorted."""
    return values[max(0, -(-len(values) * percent // 100) - 1)]
