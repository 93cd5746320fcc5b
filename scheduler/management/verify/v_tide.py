"""Verification "tide": by day services take their guarantee back, by night training borrows it again."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.autoscale import Metric
from scheduler.management.verify import serving
from scheduler.management.verify.layout import Layout, gpus
from scheduler.management.verify.readers import Process, read_training, settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit

NUMBER = "tide"
TITLE = "The tide: load brings a replica, which reclaims; its end lets the training go on"
TOKENS = 40
PACE = ("--token-seconds", "0.05")


def units(layout: Layout) -> Sequence[Unit]:
    """Return one department that owns everything; its training project is guaranteed nothing."""
    capacity_mgpu = layout.capacity_mgpu
    return (
        Unit(name="prod", quota_mgpu=capacity_mgpu),
        Unit(name="prod-inference", department="prod", quota_mgpu=2 * _replica_mgpu(layout)),
        Unit(name="prod-training", department="prod", quota_mgpu=0),
    )


def carry_out(stage: Stage) -> None:
    """Ebb, flood and ebb again."""
    key = serving.make_key(stage.scene, project="prod-inference")
    trainings = _ebb(stage)
    stage.sheet.when("four callers keep four requests in flight through the gateway")
    with serving.calling(stage, key=key, model="tide", callers=4, tokens=TOKENS) as callers:
        _flood(stage)
    stage.sheet.check(
        expected=f"{len(callers.answers)} x 200",
        seen=callers.statuses,
        where="answers through the gateway",
    )
    _ebb_again(stage, trainings)


def _replica_mgpu(layout: Layout) -> int:
    """Return what one replica asks for: a fifth of a card, or one device."""
    return 200 if layout.devices == 1 else 1000


def _borrowed_mgpu(layout: Layout) -> int:
    """Return what the training asks for: all that one replica leaves of the last device."""
    return 1000 - _replica_mgpu(layout) if layout.devices == 1 else 1000


def _ebb(stage: Stage) -> tuple[Process, ...]:
    layout, sheet = stage.layout, stage.sheet
    replica_mgpu, borrowed_mgpu = _replica_mgpu(layout), _borrowed_mgpu(layout)
    sheet.given(
        say(
            "prod-inference's guarantee {replica}, a service of {replica_2} a replica, 1 "
            "to 2, another one above 2 in flight; prod-training's guarantee 0",
            replica=gpus(2 * replica_mgpu),
            replica_2=gpus(replica_mgpu),
        )
    )
    serving.submit(
        stage.scene,
        "tide",
        project="prod-inference",
        mgpu=replica_mgpu,
        replicas=(1, 2),
        scaling=serving.scaling_by(Metric.CONCURRENCY, 2),
        more=PACE,
    )
    stage.wait_for_processes(lambda found: found.of("tide") is not None)
    sheet.when(
        say("a training of {borrowed} is submitted to prod-training", borrowed=gpus(borrowed_mgpu))
    )
    count = max(1, layout.devices - 1)
    for number in range(1, count + 1):
        stage.submit_training(f"night-{number}", project="prod-training", mgpu=borrowed_mgpu)
    found = stage.wait_for_processes(lambda seen: len(seen.starting_with("night-")) == count)
    stage.wait_for_epochs(found, "night-", more=3)
    sheet.check(
        expected=say("{count} running, all of it borrowed", count=count),
        seen=say(
            "{who} running, all of it borrowed",
            who=len(found.starting_with("night-")),
        ),
        where=PROCESS_TABLE,
    )
    return found.starting_with("night-")


def _flood(stage: Stage) -> None:
    sheet = stage.sheet
    seen = settle(
        lambda: serving.read_replicas(stage, "tide"),
        until=lambda said: said == "2/1-2",
        within_s=stage.patience_s,
    )
    sheet.check(expected="2/1-2", seen=seen, where="page /inference")
    now = stage.scene.processes()
    left = [name for name in _trainings(stage) if now.of(name) is None]
    sheet.check(
        expected="one training gave its place back, and it was reclaimed",
        seen=say(
            "{left} gave its place back: {left_2}; reclaimed: {victim_names}",
            left=len(left),
            left_2=", ".join(left),
            victim_names=", ".join(_victim_names(stage)),
        ),
        where=say("{place} and the workloads' pages", place=PROCESS_TABLE),
        passed=len(left) == 1 and left == _victim_names(stage),
    )


def _trainings(stage: Stage) -> list[str]:
    return [name for name in stage.scene.workloads if name.startswith("night-")]


def _victim_names(stage: Stage) -> list[str]:
    return [name for name in _trainings(stage) if "Reclaimed:" in stage.workload_page(name)]


def _ebb_again(stage: Stage, trainings: Sequence[Process]) -> None:
    sheet = stage.sheet
    sheet.when("the callers have gone")
    names = _victim_names(stage)
    if len(names) != 1:
        return
    name = names[0]
    before = next(process for process in trainings if process.name == name)
    said_so = read_training(before.key).has("received SIGTERM")
    sheet.check(
        expected=say("{name} received SIGTERM and had saved", name=name),
        seen=f"{name} {'received SIGTERM and had saved' if said_so else 'says nothing of it'}",
        where="its log",
    )
    patience_s = stage.patience_s + 3 * serving.WINDOW_S
    seen = settle(
        lambda: serving.read_replicas(stage, "tide"),
        until=lambda said: said == "1/1-2",
        within_s=patience_s,
    )
    sheet.check(expected="1/1-2", seen=seen, where="page /inference")
    words = "Resumed: equal to the checkpoint"
    text = settle(
        lambda: stage.workload_page(name), until=lambda page: words in page, within_s=patience_s
    )
    sheet.check(
        expected=f"{name}: {words}",
        seen=f"{name}: {words if words in text else 'not resumed equal'}",
        where=say("page /workloads/{id}", id=stage.scene.workloads[name]),
    )
