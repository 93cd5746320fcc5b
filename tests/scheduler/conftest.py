"""A tick over an engine in memory, with time that is told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scheduler import models
from scheduler.engines.base import ReplicaKey
from scheduler.engines.fake import FakeEngine
from scheduler.tick import engine_room, progress, run, sample, upkeep
from tests.scheduler.places import START


@dataclass(slots=True)
class Ticker:
    """Runs passes of the tick and lets time pass for engine and clock alike."""

    engine: FakeEngine

    def clock(self):
        return self.engine.now

    def tick(self, *, seconds=0, owner="test"):
        """Let time pass, then run one tick to its end."""
        self.engine.advance(seconds)
        tally = run.run_tick(owner=owner, clock=self.clock)
        self.engine.advance(0.001)
        return tally

    def settle(self, *, ticks=3, seconds=1):
        for _ in range(ticks):
            self.tick(seconds=seconds)

    def key(self, workload):
        row = models.Replica.objects.exclude(phase="ended").get(workload=workload)
        return ReplicaKey(replica_id=row.pk, attempt=row.attempt)


@pytest.fixture
def ticker(monkeypatch):
    """The tick on a fake engine, at 2026-11-02 09:00 UTC."""
    engine = FakeEngine(now=START)
    engine_room.engine.cache_clear()
    engine_room.sampler.cache_clear()
    monkeypatch.setattr(engine_room, "make_engine", lambda name, data_dir: engine)
    sample._last.clear()
    upkeep._last.clear()
    progress._last.clear()
    progress._taken.clear()
    yield Ticker(engine)
    engine_room.engine.cache_clear()
    engine_room.sampler.cache_clear()
