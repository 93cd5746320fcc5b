"""A clock that is never put back: what the ledger has once counted is not counted again.

The machine's clock may be stepped back, by hand or after it was wrong. The tables know until when they are
written (``Cluster.last_cycle_at``); before that instant nothing begins and nothing ends any more. While the
machine's clock is behind it, time goes on at half of its pace, until the machine has caught up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from scheduler import models
from scheduler.core.instants import to_us

log = logging.getLogger(__name__)

#: By how much a clock may lag before that is worth a warning: machines of a cluster differ a little.
WORTH_A_WORD = timedelta(seconds=5)
#: By how much it lagged when this process last looked: while it catches up that is no news.
_behind_before: dict[str, timedelta] = {}


class SteadyClock:
    """The time of one tick. Called, it returns the instant now."""

    def __init__(
        self,
        *,
        wall: Callable[[], datetime],
        not_before: datetime | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = not_before
        self._last_s = monotonic()

    def __call__(self) -> datetime:
        """Return the wall's time, or one that is never before the last one."""
        wall, now_s = self._wall(), self._monotonic()
        if self._last is not None and wall < self._last:
            wall = self._last + timedelta(seconds=(now_s - self._last_s) / 2)
        self._last, self._last_s = wall, now_s
        return wall


def of(wall: Callable[[], datetime]) -> SteadyClock:
    """Return a clock that goes on from what the tables know."""
    known = written_until()
    behind = timedelta(0) if known is None else max(timedelta(0), known - wall())
    if behind > max(WORTH_A_WORD, _behind_before.get("wall", timedelta(0))):
        log.warning("clock.was_put_back", extra={"behind_s": int(behind.total_seconds())})
    _behind_before["wall"] = behind
    return SteadyClock(wall=wall, not_before=known)


def written_until() -> datetime | None:
    """Return until when the ledger is written; None before the first cycle."""
    at: datetime | None = models.Cluster.objects.one().last_cycle_at
    return at


def steady_us(now: datetime) -> int:
    """Return the instant at which something begins or ends in the ledger that is asked for at ``now``."""
    known = written_until()
    return to_us(now if known is None else max(now, known))
