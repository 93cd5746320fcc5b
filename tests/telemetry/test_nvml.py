"""NVIDIA's library, whose answers are given here: what becomes of them, and of its refusals."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pynvml
import pytest

from scheduler.engines import devices
from scheduler.telemetry import nvml
from scheduler.telemetry.base import SampleTarget

MIB = 2**20


class Card:
    """One card of 46,068 MiB as NVML tells of it; a test changes what it says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.load: object = SimpleNamespace(gpu=100)
        self.by_process: object = []
        self.running: object = []
        for name, answer in {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: "card",
            "nvmlDeviceGetHandleByUUID": lambda uuid: "card",
            "nvmlDeviceGetUUID": lambda card: "GPU-0",
            "nvmlDeviceGetName": lambda card: "NVIDIA L40S",
            "nvmlDeviceGetMemoryInfo": lambda card: SimpleNamespace(
                total=46_068 * MIB, used=8192 * MIB
            ),
            "nvmlDeviceGetTemperature": lambda card, sensor: 61,
            "nvmlDeviceGetPowerUsage": lambda card: _raise(pynvml.NVMLError_NotSupported()),
            "nvmlDeviceGetUtilizationRates": lambda card: _give(self.load),
            "nvmlDeviceGetProcessUtilization": lambda card, since: _give(self.by_process),
            "nvmlDeviceGetComputeRunningProcesses": lambda card: _give(self.running),
        }.items():
            monkeypatch.setattr(pynvml, name, answer)


def _give(answer: object) -> object:
    return _raise(answer) if isinstance(answer, Exception) else answer


def _raise(error: Exception) -> object:
    raise error


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    return Card(monkeypatch)


def load(pid: int, percent: int, *, at: int = 1) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, smUtil=percent, timeStamp=at)


def held(pid: int, mib: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


OWN = os.getpid()
#: Two sharers: this very process with 0.30 of the card, and one that is long gone with 0.20.
TARGETS = tuple(
    SampleTarget(
        replica_id=number,
        attempt=1,
        pid=pid,
        supervisor_pid=None,
        request_mgpu=mgpu,
        device_uuids=("GPU-0",),
    )
    for number, pid, mgpu in ((1, OWN, 300), (2, 2**22 + 1, 200))
)


def test_each_process_has_its_own_figure(card: Card):
    card.by_process = [load(OWN, 80, at=1), load(OWN, 15, at=2), load(99, 70, at=1)]
    card.running = [held(OWN, 4000), held(99, 9000)]
    busy, idle = nvml.NvmlSampler().sample(TARGETS)
    assert (busy.utilization_permille, busy.memory_mib) == (500, 4000)
    assert (idle.utilization_permille, idle.memory_mib) == (0, 0)
    assert (busy.source, busy.is_valid, idle.is_valid) == ("nvml", True, True)


@pytest.mark.parametrize(
    "refusal",
    [pynvml.NVMLError_NotFound(), pynvml.NVMLError_NotSupported(), pynvml.NVMLError_GpuIsLost()],
)
def test_with_the_cards_figure_alone_sharers_are_unknown(card: Card, refusal: Exception):
    card.by_process = refusal
    samples = nvml.NvmlSampler().sample(TARGETS)
    assert [sample.is_valid for sample in samples] == [False, False]
    (alone,) = nvml.NvmlSampler().sample(TARGETS[:1])
    assert alone.utilization_permille == 1000


def test_a_card_that_says_nothing_is_unknown_and_never_zero(card: Card):
    card.by_process = card.load = card.running = pynvml.NVMLError_GpuIsLost()
    for sample in nvml.NvmlSampler().sample(TARGETS):
        assert (sample.utilization_permille, sample.memory_mib) == (None, None)


def test_without_a_driver_all_is_unknown(card: Card, monkeypatch: pytest.MonkeyPatch):
    sampler = nvml.NvmlSampler()
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: _raise(pynvml.NVMLError_DriverNotLoaded()))
    assert not any(sample.is_valid for sample in sampler.sample(TARGETS))
    assert not nvml.is_there()


def test_memory_that_is_not_told_is_unknown(card: Card):
    card.by_process = [load(OWN, 10)]
    card.running = [held(OWN, None)]
    assert nvml.NvmlSampler().sample(TARGETS)[0].memory_mib is None


def test_a_card_tells_of_itself(card: Card):
    (told,) = nvml.NvmlSampler().sample_devices()
    assert (told.utilization_permille, told.memory_used_mib) == (1000, 8192)
    assert (told.temperature_c, told.power_mw) == (61, None)


def test_the_inventory_takes_real_cards_before_virtual_ones(card: Card):
    inventory = devices.read_inventory(virtual_count=8, virtual_memory_mib=1)
    (found,) = inventory.devices
    assert (found.model, found.memory_mib, found.virtual) == ("NVIDIA L40S", 46_068, False)


def test_device_memory_by_process_leaves_out_what_is_not_told(card: Card):
    card.running = [held(OWN, 4000), held(99, None)]
    assert devices.read_nvidia_memory_mib() == {OWN: 4000}
    card.running = pynvml.NVMLError_NotSupported()
    assert devices.read_nvidia_memory_mib() == {}
