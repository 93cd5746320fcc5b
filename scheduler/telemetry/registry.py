"""The sampler for an engine, by the engine's name."""

from __future__ import annotations

from datetime import UTC, datetime

from scheduler.telemetry import nvml
from scheduler.telemetry.base import DeviceSample, ReplicaSample, Sampler, SampleTarget
from scheduler.telemetry.process_cpu import ProcessCpuSampler


class UnreadableSampler:
    """For engines whose replicas this process can't measure: all is unknown, and says so."""

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return a sample without values for each target."""
        now = datetime.now(tz=UTC)
        return tuple(
            ReplicaSample(replica_id=target.replica_id, attempt=target.attempt, sampled_at=now)
            for target in targets
        )

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return nothing."""
        return ()


def make_sampler(engine_name: str) -> Sampler:
    """Return a sampler for the replicas of an engine: NVIDIA's where there is a device."""
    if engine_name != "local":
        return UnreadableSampler()
    return NvmlOrCpu() if nvml.is_there() else ProcessCpuSampler()


class NvmlOrCpu:
    """On a machine with a GPU: real devices by NVML, replicas without one by their CPU time."""

    def __init__(self) -> None:
        self._nvml = nvml.NvmlSampler()
        self._cpu = ProcessCpuSampler()

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target, in their order."""
        real = tuple(target for target in targets if _is_real(target))
        rest = tuple(target for target in targets if not _is_real(target))
        samples = {
            (sample.replica_id, sample.attempt): sample
            for sample in (*self._nvml.sample(real), *self._cpu.sample(rest))
        }
        return tuple(samples[target.replica_id, target.attempt] for target in targets)

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each real device."""
        return self._nvml.sample_devices()


def _is_real(target: SampleTarget) -> bool:
    return any(not uuid.startswith("VIRTUAL-") for uuid in target.device_uuids)
