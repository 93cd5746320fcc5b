"""The engines and the sampler of this process. Made once; they hold no truth of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.conf import settings

from scheduler.engines.base import Engine
from scheduler.engines.registry import make_engine
from scheduler.telemetry.base import Sampler
from scheduler.telemetry.registry import make_sampler


@cache
def engine(name: str) -> Engine:
    """Return this process's engine of that name (the ``engine`` field of nodes)."""
    return make_engine(name, data_dir=Path(settings.WORKLOADS_DIR))


@cache
def sampler(name: str) -> Sampler:
    """Return this process's sampler for the replicas of the engine ``name``."""
    return make_sampler(name)
