"""What a tick looks after twice a minute: books, alerts, processes of nobody, old secrets, capacity."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from scheduler import models
from scheduler.engines.base import EngineError
from scheduler.operations import asset_files, assets, emergency, service_latencies
from scheduler.tick import alerts, books, converge, estimates, ledger
from scheduler.tick.observations import Observations

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=30)
SWEEP_EVERY = timedelta(hours=1)
THIN_EVERY = timedelta(minutes=10)
_last: dict[str, datetime] = {}


def take_care_if_due(*, observations: Observations, now: datetime) -> bool:
    """Compare the books, end orphans, record capacity. True where it was due."""
    last = _last.get("taken")
    if last is not None and timedelta(0) <= now - last < EVERY:
        return False
    _last["taken"] = now
    books.set_right()
    ledger.record_capacity(pools=models.NodePool.objects.order_by("id"), now=now)
    assets.erase_unused_secrets()
    emergency.end_those_due(now=now)
    _sweep_if_due(now)
    alerts.evaluate(now=now)
    estimates.keep(now=now)
    for name in sorted(observations.answered):
        try:
            converge.end_orphans(engine_name=name)
        except EngineError:
            log.warning("upkeep.orphans.failed", extra={"engine": name}, exc_info=True)
    _thin_if_due(now)
    return True


def _sweep_if_due(now: datetime) -> None:
    """Remove uploaded files that nothing speaks of any more, once an hour."""
    last = _last.get("swept")
    if last is None or not timedelta(0) <= now - last < SWEEP_EVERY:
        _last["swept"] = now
        asset_files.sweep(now=now)


def _thin_if_due(now: datetime) -> None:
    last = _last.get("thinned")
    if last is None or now - last >= THIN_EVERY:
        _last["thinned"] = now
        service_latencies.thin(now=now)
