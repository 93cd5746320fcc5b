"""Samples of replicas on other machines: each is measured where it runs."""

from __future__ import annotations

from datetime import UTC, datetime

from scheduler.engines.base import ReplicaKey
from scheduler.remote.engine import RayEngine
from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget


class RemoteSampler:
    """Measures through the engine. What a node does not tell is unknown, never idle."""

    def __init__(self, engine: RayEngine) -> None:
        self._engine = engine

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order."""
        taken = self._engine.sample(targets)
        return tuple(taken.get(_key(target)) or _unknown(target) for target in targets)

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each real device of nodes that answer."""
        return self._engine.sample_devices()


def _key(target: SampleTarget) -> ReplicaKey:
    return ReplicaKey(replica_id=target.replica_id, attempt=target.attempt)


def _unknown(target: SampleTarget) -> ReplicaSample:
    return ReplicaSample(
        replica_id=target.replica_id, attempt=target.attempt, sampled_at=datetime.now(tz=UTC)
    )
