"""Two days of one pool: inference follows office hours, training fills the rest, or each keeps its half.

Both are decided by the core. They differ in one thing: whether a department may use what the other
leaves idle. What is shown is the second day; the first one only fills the pool.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from scheduler.core.simulation import US, SimulatedPool, Work
from scheduler.core.snapshot import (
    Department,
    Device,
    Node,
    Policy,
    Project,
    QueueQuota,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind, Priority

NODES, DEVICES = 4, 8
#: One point of the picture, and how often the number of replicas is adapted.
STEP_S = 15 * 60
DAY_S = 24 * 3600
#: Replicas of the inference service, one device each, by the hour at which they are wanted.
WANTED_BY_HOUR = (
    3,
    2,
    2,
    2,
    2,
    3,
    5,
    9,
    15,
    19,
    21,
    22,
    20,
    21,
    22,
    22,
    21,
    18,
    14,
    11,
    9,
    7,
    5,
    4,
)
INFERENCE, TRAINING = 1, 2
#: What a training asks for in devices, and how many such wait at any time.
_BACKLOG = {1: 12, 2: 5, 4: 3}
_TRAINING_HOURS = (1, 6)
SEED = 11


@dataclass(slots=True, kw_only=True)
class Day:
    """One day's figures; the lists have a value for each step."""

    name: str
    inference_gpu: list[float] = field(default_factory=list)
    training_gpu: list[float] = field(default_factory=list)
    wanted_gpu: list[float] = field(default_factory=list)
    #: Interrupted training.
    interruptions: int = 0
    trainings_done: int = 0

    @property
    def capacity_gpu(self) -> int:
        """The pool's devices."""
        return NODES * DEVICES

    @property
    def inference_gpu_hours(self) -> float:
        """What the service held."""
        return sum(self.inference_gpu) * STEP_S / 3600

    @property
    def training_gpu_hours(self) -> float:
        """What training held."""
        return sum(self.training_gpu) * STEP_S / 3600

    @property
    def idle_gpu_hours(self) -> float:
        """What nobody held."""
        return self.capacity_gpu * 24 - self.inference_gpu_hours - self.training_gpu_hours

    @property
    def missing_gpu_hours(self) -> float:
        """What the service wanted and did not get."""
        return sum(self.wanted_gpu) * STEP_S / 3600 - self.inference_gpu_hours


def simulate_day(*, name: str, shared: bool) -> Day:
    """Return the second day, with idle GPU lent between the departments or not."""
    pool = SimulatedPool(_frame(shared=shared), policy=Policy())
    pool.add(Work(workload=_service(), left_us=None))
    draw = Random(SEED)
    day = Day(name=name)
    made = 0
    for step in range(2 * DAY_S // STEP_S):
        at_us = step * STEP_S * US
        pool.pass_time(to_us=at_us)
        if at_us == DAY_S * US:
            day.interruptions, day.trainings_done = -pool.totals.interruptions, -len(pool.done)
        wanted = _wanted(step * STEP_S % DAY_S)
        pool.change(INFERENCE, max_replicas=wanted)
        made = _refill(pool, draw, made, at_us)
        pool.decide()
        if at_us >= DAY_S * US:
            day.inference_gpu.append(pool.held_by.get(INFERENCE, 0) / WHOLE_GPU_MGPU)
            day.training_gpu.append(pool.held_by.get(TRAINING, 0) / WHOLE_GPU_MGPU)
            day.wanted_gpu.append(wanted)
    pool.pass_time(to_us=2 * DAY_S * US)
    day.interruptions += pool.totals.interruptions
    day.trainings_done += len(pool.done)
    return day


def _wanted(second: int) -> int:
    """Return the replicas wanted at ``second`` of the day, in a straight line between the hours."""
    hour, rest = divmod(second, 3600)
    here, then = WANTED_BY_HOUR[hour], WANTED_BY_HOUR[(hour + 1) % 24]
    return round(here + (then - here) * rest / 3600)


def _refill(pool: SimulatedPool, draw: Random, made: int, at_us: int) -> int:
    """Hand in training until enough of each size waits; return how many were made so far."""
    waiting = Counter(
        work.workload.request.devices for work in pool.live.values() if not work.workload.replicas
    )
    for devices, wanted in _BACKLOG.items():
        for _ in range(wanted - waiting[devices]):
            made += 1
            seconds = draw.randint(_TRAINING_HOURS[0] * 3600, _TRAINING_HOURS[1] * 3600)
            pool.add(Work(workload=_training(made, devices, at_us), left_us=seconds * US))
    return made


def _frame(*, shared: bool) -> Snapshot:
    half_mgpu = NODES * DEVICES * WHOLE_GPU_MGPU // 2
    quota = QueueQuota(quota_mgpu=half_mgpu, over_quota=shared)
    names = {INFERENCE: "inference", TRAINING: "training"}
    devices = tuple(Device(index=index) for index in range(DEVICES))
    return Snapshot(
        nodes=tuple(Node(name=f"node-{number}", devices=devices) for number in range(NODES)),
        departments=tuple(
            Department(id=key, name=name, quota=quota) for key, name in names.items()
        ),
        projects=tuple(
            Project(id=key, name=name, department_id=key, quota=quota)
            for key, name in names.items()
        ),
        workloads=(),
    )


def _service() -> Workload:
    return Workload(
        id=INFERENCE,
        name="service",
        project_id=INFERENCE,
        kind=Kind.INFERENCE,
        priority=int(Priority.VERY_HIGH),
        preemptible=True,  # it borrows at noon; within its half nobody can take it
        request=Request(request_mgpu=WHOLE_GPU_MGPU),
        submitted_at_us=0,
    )


def _training(number: int, devices: int, at_us: int) -> Workload:
    return Workload(
        id=1000 + number,
        name=f"training-{number:04d}",
        project_id=TRAINING,
        kind=Kind.TRAINING,
        priority=int(Priority.LOW),
        preemptible=True,
        request=Request(devices=devices, request_mgpu=WHOLE_GPU_MGPU),
        submitted_at_us=at_us,
    )
