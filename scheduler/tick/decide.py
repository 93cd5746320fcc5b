"""Step 4 of a tick: a pool's plan, from state that this process keeps from tick to tick.

The tables stay the only truth: the state is brought forward by what differs between what was read now
and what it stands for, whoever changed it, and what the last plan decided counts only if the tables say
so. Every so often (``KEPT_CHECK_EVERY``) the plan is also made from nothing; if it differs, that is
said in the log, the plan made from nothing counts, and the state is built anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.conf import settings

from scheduler.core import cycle
from scheduler.core.kept import Kept, differing_parts
from scheduler.core.plan import Plan
from scheduler.queries.snapshots import Loaded

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """What is kept of one pool, and how many plans were made from it since the last check."""

    kept: Kept
    unchecked: int = 0


_HELD: dict[int, _Held] = {}


def make_plan(loaded: Loaded, *, now_us: int) -> Plan:
    """Return what ``decide`` returns for the pool as it was read."""
    pool_id = loaded.pool.pk
    held = _HELD.pop(pool_id, None)
    if held is None or held.kept.policy != loaded.policy:
        held = _Held(Kept(loaded.snapshot, policy=loaded.policy, now_us=now_us))
    else:
        held.kept.follow(loaded.snapshot, now_us=now_us)
    plan = held.kept.decide()
    held.unchecked += 1
    every = settings.KEPT_CHECK_EVERY
    if every and held.unchecked >= every:
        held.unchecked = 0
        anew = cycle.decide(snapshot=loaded.snapshot, policy=loaded.policy, now_us=now_us)
        parts = differing_parts(plan, anew)
        if parts:
            log.error("tick.kept.differs", extra={"pool": loaded.pool.name, "parts": parts})
            return anew
    # Only now: after an error on the way the next tick builds the state anew.
    _HELD[pool_id] = held
    return plan


def forget() -> None:
    """Drop all that is kept; the next tick builds it anew."""
    _HELD.clear()
