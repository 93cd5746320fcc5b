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
        self.clients: object = pynvml.NVMLError_FunctionNotFound()
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
            "nvmlDeviceGetMPSComputeRunningProcesses": lambda card: _give(self.clients),
            "nvmlDeviceGetMigMode": lambda card: _raise(pynvml.NVMLError_NotSupported()),
            "nvmlDeviceIsMigDeviceHandle": lambda card: False,
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


def test_clients_of_mps_are_seen_though_the_card_lists_their_server_alone(card: Card):
    # Given a card whose only process is the MPS server, with two clients
    card.running = [held(99, 30)]
    card.clients = [held(OWN, 4000), held(4711, 1500)]
    # Then each holds its own
    assert devices.read_nvidia_memory_mib() == {99: 30, OWN: 4000, 4711: 1500}
    assert nvml.NvmlSampler().sample(TARGETS)[0].memory_mib == 4000
    # And one that is listed twice counts once, with the greater figure
    card.running = [held(OWN, 3000)]
    assert devices.read_nvidia_memory_mib()[OWN] == 4000


# --- MIG ------------------------------------------------------------------------------------------

GIB = 2**30
#: What NVML says of a machine with a divided A100, a divided one with no instance, and a whole L40S.
MACHINE = {
    "a100": ("GPU-a", "NVIDIA A100-SXM4-40GB", 40 * GIB, 1),
    "bare": ("GPU-b", "NVIDIA A100-SXM4-40GB", 40 * GIB, 1),
    "l40s": ("GPU-c", "NVIDIA L40S", 46_068 * MIB, 0),
    "3g": ("MIG-3", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20_096 * MIB, None),
    "1g": ("MIG-1", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 * MIB, None),
}
CARDS = ("a100", "bare", "l40s")
#: Places of instances on a card; not all are taken.
INSTANCES = {("a100", 0): "3g", ("a100", 3): "1g"}


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[SimpleNamespace]]:
    """That machine; a test says which processes are on what."""
    running: dict[str, list[SimpleNamespace]] = {}

    def instance(card: str, place: int) -> str:
        found = INSTANCES.get((card, place))
        return found if found else str(_raise(pynvml.NVMLError_NotFound()))

    def mode(handle: str) -> tuple[int, int]:
        known = MACHINE[handle][3]
        return (known, known) if known is not None else _raise(pynvml.NVMLError_NotSupported())  # type: ignore[return-value]

    def of_a_whole_card(answer: object):
        """Answer as NVML does: an instance has no load, sensors or power of its own."""

        def ask(handle: str, *_more: object) -> object:
            return _raise(pynvml.NVMLError_NotSupported()) if handle in ("3g", "1g") else answer

        return ask

    for name, answer in {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(CARDS),
        "nvmlDeviceGetHandleByIndex": lambda index: CARDS[index],
        "nvmlDeviceGetHandleByUUID": lambda uuid: next(
            k for k, v in MACHINE.items() if v[0] == uuid
        ),
        "nvmlDeviceGetMigMode": mode,
        "nvmlDeviceGetMaxMigDeviceCount": lambda card: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": instance,
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle in ("3g", "1g"),
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "a100",
        "nvmlDeviceGetUUID": lambda handle: MACHINE[handle][0],
        "nvmlDeviceGetName": lambda handle: MACHINE[handle][1],
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
            total=MACHINE[handle][2], used=1024 * MIB
        ),
        "nvmlDeviceGetTemperature": of_a_whole_card(55),
        "nvmlDeviceGetPowerUsage": of_a_whole_card(90_000),
        "nvmlDeviceGetUtilizationRates": of_a_whole_card(SimpleNamespace(gpu=40)),
        "nvmlDeviceGetProcessUtilization": of_a_whole_card([load(OWN, 10)]),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: running.get(handle, []),
        "nvmlDeviceGetMPSComputeRunningProcesses": lambda handle: [],
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    return running


def test_instances_are_devices_and_the_card_that_they_divide_is_none(divided):
    found = devices.list_nvidia_devices()
    assert [(device.index, device.uuid, device.memory_mib) for device in found] == [
        (0, "MIG-3", 20_096),
        (1, "MIG-1", 4864),
        (2, "GPU-c", 46_068),
    ]
    assert found[1].model == "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert not any(device.virtual for device in found)


def test_memory_is_told_by_instance_and_load_of_one_is_unknown(divided):
    # Given this process on the small instance
    divided["1g"] = [held(OWN, 3000)]
    divided["l40s"] = [held(4711, 500)]
    assert devices.read_nvidia_memory_mib() == {OWN: 3000, 4711: 500}
    target = SampleTarget(
        replica_id=1,
        attempt=1,
        pid=OWN,
        supervisor_pid=None,
        request_mgpu=1000,
        device_uuids=("MIG-1",),
    )
    # Then its memory is known; nobody calls it idle or busy, since NVML does not tell
    (seen,) = nvml.NvmlSampler().sample((target,))
    assert (seen.memory_mib, seen.utilization_permille, seen.is_valid) == (3000, None, False)


def test_an_instance_has_its_cards_temperature_and_no_power_of_its_own(divided):
    told = {sample.uuid: sample for sample in nvml.NvmlSampler().sample_devices()}
    assert set(told) == {"MIG-3", "MIG-1", "GPU-c"}
    assert (told["MIG-1"].temperature_c, told["MIG-1"].power_mw) == (55, None)
    assert (told["GPU-c"].temperature_c, told["GPU-c"].power_mw) == (55, 90_000)
    assert (told["MIG-1"].utilization_permille, told["GPU-c"].utilization_permille) == (None, 400)


@pytest.mark.gpu
def test_a_real_card_is_found_and_tells_of_itself():
    found = devices.list_nvidia_devices()
    assert all(device.memory_mib > 0 and device.uuid and not device.virtual for device in found)
    told = {sample.uuid: sample for sample in nvml.NvmlSampler().sample_devices()}
    assert set(told) == {device.uuid for device in found}
    assert all(sample.memory_used_mib is not None for sample in told.values())
