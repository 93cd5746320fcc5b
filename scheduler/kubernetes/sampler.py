"""Samples of pods: what they use is measured on their nodes, and nobody tells it here yet."""

from __future__ import annotations

from datetime import UTC, datetime

from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget


class SilentSampler:
    """Knows nothing of any replica. That is unknown, never idle."""

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order, that says nothing."""
        now = datetime.now(tz=UTC)
        return tuple(
            ReplicaSample(replica_id=t.replica_id, attempt=t.attempt, sampled_at=now)
            for t in targets
        )

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return nothing."""
        return ()
