"""A simulated day beside the savings account: one pool whose halves lend what is idle, or don't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

from django.utils.translation import gettext as _

from scheduler.management.simulation.day import DEVICES, NODES, Day, simulate_day

#: Size of a picture: the width of a step and the height of a GPU.
STEP_WIDTH, GPU_HEIGHT = 3, 2

_one_at_a_time = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One day as areas in the coordinates of its view box, training on top of inference."""

    name: str
    width: int
    height: int
    inference: str
    training: str
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of both days."""

    label: str
    shared: str
    fixed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same day twice."""

    nodes: int
    devices: int
    pictures: tuple[Picture, Picture]
    lines: tuple[Line, ...]


def compare() -> Comparison:
    """Return the day with a shared pool and with fixed halves. The first call takes some CPU seconds."""
    with _one_at_a_time:
        shared, fixed = _days()
    told = (
        (_("Inference, GPU hours"), "inference_gpu_hours"),
        (_("Training, GPU hours"), "training_gpu_hours"),
        (_("Nobody, GPU hours"), "idle_gpu_hours"),
        (_("Wanted by inference and not got, GPU hours"), "missing_gpu_hours"),
    )
    counted = (
        (_("Trainings that ended"), "trainings_done"),
        (_("Trainings interrupted"), "interruptions"),
    )
    return Comparison(
        nodes=NODES,
        devices=DEVICES,
        pictures=(picture(shared, name=_("Shared pool")), picture(fixed, name=_("Fixed halves"))),
        lines=(
            *(
                Line(
                    label=label,
                    shared=f"{getattr(shared, name):.1f}",
                    fixed=f"{getattr(fixed, name):.1f}",
                )
                for label, name in told
            ),
            *(
                Line(
                    label=label, shared=str(getattr(shared, name)), fixed=str(getattr(fixed, name))
                )
                for label, name in counted
            ),
        ),
    )


@cache
def _days() -> tuple[Day, Day]:
    return simulate_day(name="shared", shared=True), simulate_day(name="fixed", shared=False)


def picture(day: Day, *, name: str) -> Picture:
    """Return a day as areas."""
    height = day.capacity_gpu * GPU_HEIGHT
    both = [
        inference + training
        for inference, training in zip(day.inference_gpu, day.training_gpu, strict=True)
    ]
    return Picture(
        name=name,
        width=len(both) * STEP_WIDTH,
        height=height,
        inference=_area(day.inference_gpu, height),
        training=_area(both, height),
        wanted=_steps(day.wanted_gpu, height),
    )


def _steps(values: Sequence[float], height: int) -> str:
    """Return a line that keeps each value for a step."""
    parts = [f"M0 {height - values[0] * GPU_HEIGHT:g}"]
    for at, value in enumerate(values):
        parts.append(f"V{height - value * GPU_HEIGHT:g}H{(at + 1) * STEP_WIDTH}")
    return "".join(parts)


def _area(values: Sequence[float], height: int) -> str:
    return f"{_steps(values, height)}V{height}H0Z"
