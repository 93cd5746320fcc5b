"""One tick: observe, record, load, decide, apply, converge, publish. The steps, and nothing else."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler import events
from scheduler.core.instants import to_us
from scheduler.operations import quota_switches, steady_clock
from scheduler.queries import snapshots
from scheduler.tick import (
    autoscale,
    converge,
    decide,
    drain,
    idle,
    lease,
    observe,
    progress,
    publish,
    sample,
    upkeep,
)
from scheduler.tick.apply import PlanStale, apply_plan

log = logging.getLogger(__name__)

#: How often a lingering tick looks whether something ended or was asked for.
LOOK_AGAIN_S = 0.05
#: Passes of one tick that may follow each other at once.
MAX_PASSES = 50

Clock = Callable[[], datetime]
#: What this process read before. It is compared with the tables each time, and believed no further.
_keep = snapshots.Keep()


def utc_now() -> datetime:
    """Return the time now: the clock of the tick, which never goes back with it; tests pass their own."""
    return datetime.now(tz=UTC)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one tick did."""

    passes: int = 0
    started: int = 0
    evicted: int = 0
    stale: int = 0


def run_tick(*, owner: str, clock: Clock = utc_now, linger_s: float = 0.0) -> Tally | None:
    """Run passes until one changes nothing, then look again until ``linger_s`` is over.

    Returns None where another tick is at work. Safe to repeat and to miss: everything it needs is
    in the tables and with the engines.
    """
    clock = steady_clock.of(clock)
    if not lease.take(owner=owner, now=clock()):
        return None
    try:
        return _run(owner=owner, clock=clock, linger_s=linger_s)
    finally:
        lease.give_back(owner=owner)


def _run(*, owner: str, clock: Clock, linger_s: float) -> Tally:
    tally = Tally()
    until = time.monotonic() + linger_s
    woken = events.wake_count()
    _settle(tally, clock)
    while time.monotonic() < until:
        ended = observe.wait_for_change(timeout_s=LOOK_AGAIN_S)
        count = events.wake_count()
        if count == woken and not ended:
            continue
        woken = count
        lease.take(owner=owner, now=clock())
        _settle(tally, clock)
    return tally


def _settle(tally: Tally, clock: Clock) -> None:
    for _ in range(MAX_PASSES):
        if not run_pass(tally=tally, clock=clock):
            return


def run_pass(*, tally: Tally, clock: Clock) -> bool:
    """Run the seven steps once. True where something changed and another pass may find more."""
    began = time.monotonic()
    observations = observe.gather(now=clock())
    changed = observe.record(observations=observations, now=clock())
    sample.take_if_due(observations=observations, now=clock())
    progress.take(observations=observations, now=clock())
    changed |= idle.govern(now=clock())
    changed |= drain.carry_out(now=clock())
    upkeep.take_care_if_due(observations=observations, now=clock())
    changed |= autoscale.scale_services(now=clock())
    changed |= quota_switches.apply_due(now=clock())
    if _decide_and_apply(tally, clock):
        changed = True
        publish.say_decided(now=clock())
    acted = converge.converge(observations=observations, now=clock())
    took_ms = int((time.monotonic() - began) * 1000)
    publish.finish_cycle(now=clock(), took_ms=took_ms)
    tally.passes += 1
    if changed or acted:
        log.info("tick.pass", extra={"ms": took_ms, "started": tally.started})
    return changed


def _decide_and_apply(tally: Tally, clock: Clock) -> bool:
    changed = False
    cluster, pools = snapshots.load_pools(keep=_keep)
    generation = cluster.generation
    for loaded in pools:
        now = clock()
        plan = decide.make_plan(loaded, now_us=to_us(now))
        try:
            applied = apply_plan(
                loaded=loaded,
                plan=plan,
                generation=generation,
                now=now,
                cycle=cluster.cycle + 1,
            )
        except PlanStale:
            log.info("tick.plan.stale", extra={"pool": loaded.pool.name})
            return True
        generation = applied.generation
        tally.started += applied.started
        tally.evicted += applied.evicted
        tally.stale += len(applied.stale)
        changed |= bool(applied.started or applied.evicted or applied.stale)
    return changed
