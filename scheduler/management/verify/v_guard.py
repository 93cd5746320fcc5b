"""Can development hurt production? Each defence is tried alone, the others taken away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Kind, Priority
from scheduler.management.verify.layout import Layout, gpus
from scheduler.management.verify.readers import Processes, answers
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import DWELL_S, PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit, service, training

NUMBER = "guard"
FLOOD_PRIORITY = 999
TITLE = "Three defences of a production service, each alone against development's flood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defence:
    """One defence: what it is, and how the service and the queues stand while it is tried."""

    words: str
    guarantee_mgpu: int
    dev_limit_mgpu: int
    priority: int
    preemptible: bool
    #: In which project the flood comes, and whether it is there before the service is.
    flood_in: str
    flood_first: bool


def units(layout: Layout) -> Sequence[Unit]:
    """Return production with one project and development with one, both without limits at first."""
    dev_mgpu = layout.capacity_mgpu - layout.answers_mgpu
    return (
        Unit(name="prod", quota_mgpu=layout.answers_mgpu),
        Unit(name="dev", quota_mgpu=dev_mgpu),
        Unit(name="prod-app", department="prod", quota_mgpu=layout.answers_mgpu),
        Unit(name="dev-lab", department="dev", quota_mgpu=dev_mgpu),
    )


def carry_out(stage: Stage) -> None:
    """Try each defence against a flood that would take the whole cluster."""
    for defence in _defences(stage.layout):
        _try(stage, defence)


def _defences(layout: Layout) -> tuple[Defence, ...]:
    service_mgpu = layout.answers_mgpu
    return (
        Defence(
            words="its neighbor's limit alone (nothing guaranteed, very low priority, preemptible)",
            guarantee_mgpu=0,
            dev_limit_mgpu=layout.capacity_mgpu - service_mgpu,
            priority=Priority.VERY_LOW,
            preemptible=True,
            flood_in="dev-lab",
            flood_first=True,
        ),
        Defence(
            words="its guarantee alone (no limit of dev, very low priority, preemptible)",
            guarantee_mgpu=service_mgpu,
            dev_limit_mgpu=UNLIMITED_MGPU,
            priority=Priority.VERY_LOW,
            preemptible=True,
            flood_in="dev-lab",
            flood_first=True,
        ),
        # Non-preemptible work may not borrow, so its guarantee is the price of admission. What the
        # defence adds is shown where a guarantee protects nobody: inside the same project.
        Defence(
            words=(
                "non-preemptibility with very high priority alone (no limit of dev; the flood comes "
                "inside its own project, where a guarantee protects nobody)"
            ),
            guarantee_mgpu=service_mgpu,
            dev_limit_mgpu=UNLIMITED_MGPU,
            priority=Priority.VERY_HIGH,
            preemptible=False,
            flood_in="prod-app",
            flood_first=False,
        ),
    )


def _try(stage: Stage, defence: Defence) -> None:
    scene, sheet, layout = stage.scene, stage.sheet, stage.layout
    scene.set_guarantee("prod-app", quota_mgpu=defence.guarantee_mgpu)
    scene.set_guarantee("prod", quota_mgpu=defence.guarantee_mgpu)
    scene.set_department("dev", limit_mgpu=defence.dev_limit_mgpu)
    flood = say(
        "{flood_in} asks for twice the cluster in trainings of {training} at priority "
        "{flood_priority}",
        flood_in=defence.flood_in,
        training=gpus(layout.training_mgpu),
        flood_priority=FLOOD_PRIORITY,
    )
    sheet.given(
        say(
            "a production service of {answers} with {words}",
            answers=gpus(layout.answers_mgpu),
            words=defence.words,
        )
    )
    if defence.flood_first:
        sheet.when(say("{flood}; then the service is started", flood=flood))
        names = _flood(stage, defence)
        _start_service(stage, defence)
    else:
        sheet.when(say("it runs; then {flood}", flood=flood))
        _start_service(stage, defence)
        names = _flood(stage, defence)
    _check(stage)
    for name in [*names, "answers"]:
        scene.delete(name)
    stage.wait_for_processes(lambda found: not found.found)


def _check(stage: Stage) -> None:
    sheet, layout = stage.sheet, stage.layout
    before = stage.wait_for_services(["answers"])
    time.sleep(DWELL_S)
    after = stage.scene.processes()
    sheet.check(
        expected="the service runs, the same process all the time",
        seen=_goes_on(before, after),
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="it answers",
        seen="it answers" if answers(after.of("answers")) else "it does not answer",
        where="HTTP to the process",
    )
    held_mgpu = after.mgpu("flood-")
    most_mgpu = layout.capacity_mgpu - layout.answers_mgpu
    sheet.check(
        expected=say("the flood holds something, at most {most}", most=gpus(most_mgpu)),
        seen=say("the flood holds {held}", held=gpus(held_mgpu)),
        where=PROCESS_TABLE,
        passed=0 < held_mgpu <= most_mgpu,
    )


def _start_service(stage: Stage, defence: Defence) -> None:
    stage.scene.submit(
        "answers",
        project="prod-app",
        kind=Kind.INFERENCE,
        mgpu=stage.layout.answers_mgpu,
        command=service(model="answers"),
        priority=defence.priority,
        preemptible=defence.preemptible,
    )
    stage.wait_for_services(["answers"])


def _flood(stage: Stage, defence: Defence) -> list[str]:
    """Hand the flood in and wait until it fills what it may."""
    layout = stage.layout
    one = layout.training_mgpu
    names = [f"flood-{number}" for number in range(1, 2 * layout.capacity_mgpu // one + 1)]
    for number, name in enumerate(names):
        stage.scene.submit(
            name,
            project=defence.flood_in,
            kind=Kind.TRAINING,
            mgpu=one,
            command=training(epoch_s="2", seed=number),
            priority=FLOOD_PRIORITY,
            preemptible=True,
        )
    room_mgpu = layout.capacity_mgpu - (0 if defence.flood_first else layout.answers_mgpu)
    room_mgpu = min(room_mgpu, defence.dev_limit_mgpu)
    stage.wait_for_processes(lambda found: len(found.starting_with("flood-")) >= room_mgpu // one)
    return names


def _goes_on(before: Processes, after: Processes) -> str:
    first, last = before.of("answers"), after.of("answers")
    if first is None or last is None:
        return "the service does not run"
    same = first.identity == last.identity
    return say(
        "the service runs, {same}", same="the same process all the time" if same else "begun anew"
    )
