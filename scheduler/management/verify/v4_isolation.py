"""Verification 4: departments are independent, and each process sees and keeps to its own slice."""

from __future__ import annotations

import time

from scheduler.management.verify import given
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import Process, Processes, answers, identities, settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage

NUMBER = "4"
TITLE = "A full development department delays nobody in production, and slices are walls"
#: A slice of 230 MiB on a card of 46,068, and what the process takes in it.
SMALL_MGPU = 5
TAKES_MIB = 400
MORE_EPOCHS = 3

units = article_units


def carry_out(stage: Stage) -> None:
    """Fill dev-test, let production grow, then let one process leave its slice."""
    before = _fill(stage)
    epochs = {name: len(log.epochs) for name, log in stage.training_logs(before, "train-").items()}
    _production_grows(stage, before)
    _trainings_go_on(stage, before, epochs)
    _slices(stage, before)
    _one_takes_more(stage)


def _fill(stage: Stage) -> Processes:
    layout = stage.layout
    running = layout.trainings_under(layout.dev_limit_mgpu)
    given.start_services(stage)
    given.submit_trainings(stage, project="unit-a", prefix="train", count=running + 2)
    stage.wait_for_page(lambda page: len(page.waiting) == 2)
    found = stage.wait_for_processes(lambda found: len(found.starting_with("train-")) >= running)
    stage.wait_for_epochs(found, "train-", more=2)
    stage.sheet.given(
        say(
            "{services}; {running} trainings of {training} run in dev-test, two wait at "
            "its limit {dev_limit}",
            services=given.services_in_words(stage),
            running=running,
            training=gpus(layout.training_mgpu),
            dev_limit=gpus(layout.dev_limit_mgpu),
        )
    )
    return found


def _production_grows(stage: Stage, before: Processes) -> None:
    layout, sheet = stage.layout, stage.sheet
    sheet.when(
        say(
            "a second service of {answers} is submitted to prod-inference",
            answers=gpus(layout.answers_mgpu),
        )
    )
    began = time.monotonic()
    stage.submit_service("answers-2", project="prod-inference", mgpu=layout.answers_mgpu)
    found = stage.wait_for_processes(lambda found: found.of("answers-2") is not None)
    took_s = time.monotonic() - began
    is_up = found.of("answers-2") is not None
    sheet.check(
        expected="answers-2 starts at once: it waits for nobody, and nobody is interrupted for it",
        seen=say(
            "{is_up} after {took_s} s; {before} interrupted",
            is_up="started" if is_up else "not started",
            took_s=f"{took_s:.1f}",
            before=_gone(before, found),
        ),
        where=PROCESS_TABLE,
        passed=is_up and not _missing(before, found),
    )
    served = stage.wait_for_services(["answers-2"]).of("answers-2")
    sheet.check(
        expected="answers-2 answers on its own port",
        seen="answers-2 answers on its own port" if answers(served) else "no answer",
        where="HTTP to the process",
    )
    running = layout.trainings_under(layout.dev_limit_mgpu)
    total_mgpu = running * layout.training_mgpu + layout.dev_services_mgpu + 2 * layout.answers_mgpu
    expected = (
        f"{gpus(running * layout.training_mgpu)} + {gpus(layout.dev_services_mgpu)} + "
        f"{gpus(2 * layout.answers_mgpu)} = {gpus(total_mgpu)}"
    )
    services = sum(found.mgpu(name) for name in ("chat", "embed"))
    parts = (found.mgpu("train-"), services, found.mgpu("answers"))
    sheet.check(
        expected=expected,
        seen=f"{' + '.join(gpus(part) for part in parts)} = {gpus(found.mgpu())}",
        where=say("{place}: what each process was given", place=PROCESS_TABLE),
    )
    page = stage.wait_for_page(lambda page: page.held_mgpu == total_mgpu)
    sheet.check(
        expected=say(
            "{held} of {capacity} held",
            held=gpus(total_mgpu),
            capacity=gpus(layout.capacity_mgpu),
        ),
        seen=say(
            "{held} of {capacity} held",
            held=gpus(page.held_mgpu),
            capacity=gpus(layout.capacity_mgpu),
        ),
        where=stage.page_name,
    )


def _trainings_go_on(stage: Stage, before: Processes, epochs: dict[str, int]) -> None:
    """Compare the trainings' processes and output with those before production grew."""
    logs = stage.wait_for_epochs(before, "train-", more=MORE_EPOCHS)
    found = stage.scene.processes()
    trainings = before.starting_with("train-")
    stage.sheet.check(
        expected=say("the same processes: {who}", who=identities(trainings)),
        seen=say(
            "the same processes: {who}",
            who=identities(found.starting_with("train-")),
        ),
        where=PROCESS_TABLE,
    )
    for name, log in logs.items():
        first, last = log.epochs[0], log.epochs[-1]
        stage.sheet.check(
            expected=say(
                "{name}: from epoch {epoch} on one by one, loss falling, from one start",
                name=name,
                epoch=epochs[name],
            ),
            seen=say(
                "{name}: epochs {number} to {number_2}, {epochs} of them, loss {loss} to "
                "{loss_2}, trained {elapsed_s} to {elapsed_s_2} s, longest pause "
                "{longest_pause_s} s",
                name=name,
                number=first.number,
                number_2=last.number,
                epochs=len(log.epochs),
                loss=f"{first.loss:.4f}",
                loss_2=f"{last.loss:.4f}",
                elapsed_s=first.elapsed_s,
                elapsed_s_2=last.elapsed_s,
                longest_pause_s=log.longest_pause_s,
            ),
            where="its log",
            passed=log.goes_on
            and last.loss < first.loss
            and len(log.epochs) >= epochs[name] + MORE_EPOCHS,
        )


def _slices(stage: Stage, before: Processes) -> None:
    layout = stage.layout
    slice_mib = layout.slice_mib(layout.training_mgpu)
    for name, log in stage.training_logs(before, "train-").items():
        stage.sheet.check(
            expected=say(
                "{name} sees a total of {total} MiB, its slice of {memory}",
                name=name,
                total=slice_mib,
                memory=layout.memory_mib,
            ),
            seen=say(
                "{name} sees a total of {total} MiB, its slice of {memory}",
                name=name,
                total=log.total_mib,
                memory=layout.memory_mib,
            ),
            where="the first lines of its log",
        )


def _one_takes_more(stage: Stage) -> None:
    """Start a process in a small slice that takes more than that."""
    layout, sheet = stage.layout, stage.sheet
    if stage.page().free_mgpu < SMALL_MGPU:  # whole devices leave no room: the second service goes
        stage.scene.delete("answers-2")
        stage.wait_for_processes(lambda found: found.of("answers-2") is None)
    before = stage.scene.processes()
    slice_mib = layout.slice_mib(SMALL_MGPU)
    sheet.when(
        say(
            "a training in prod takes {takes} MiB in a slice of {small} = {slice} MiB",
            takes=TAKES_MIB,
            small=gpus(SMALL_MGPU),
            slice=slice_mib,
        )
    )
    stage.submit_training(
        "greedy",
        project="prod-training",
        mgpu=SMALL_MGPU,
        more=("--hog-mib", str(TAKES_MIB), "--no-checkpoint"),
    )
    started = stage.wait_for_processes(lambda found: found.of("greedy") is not None)
    ended = stage.wait_for_processes(lambda found: found.of("greedy") is None)
    sheet.check(
        expected="greedy was started and is stopped; nobody else is",
        seen=say(
            "greedy {started} and {ended}; {ended_2} else is",
            started="was started" if started.of("greedy") else "was never started",
            ended="is stopped" if ended.of("greedy") is None else "still runs",
            ended_2=_gone(before, ended),
        ),
        where=PROCESS_TABLE,
        passed=started.of("greedy") is not None
        and ended.of("greedy") is None
        and not _missing(before, ended),
    )
    event = "Took more memory than its slice"
    text = settle(
        lambda: stage.workload_page("greedy"),
        until=lambda text: event in text,
        within_s=stage.patience_s,
    )
    sheet.check(
        expected=say("an event: {event}", event=event),
        seen=say("an event: {event}", event=event) if event in text else "no such event",
        where=say("page /workloads/{id}", id=stage.scene.workloads["greedy"]),
    )
    _neighbours_go_on(stage, before)


def _neighbours_go_on(stage: Stage, before: Processes) -> None:
    epochs = {name: len(log.epochs) for name, log in stage.training_logs(before, "train-").items()}
    logs = stage.wait_for_epochs(before, "train-", more=MORE_EPOCHS)
    good = [
        name
        for name, log in logs.items()
        if log.goes_on and len(log.epochs) >= epochs[name] + MORE_EPOCHS
    ]
    stage.sheet.check(
        expected=say("its neighbours' epochs go on one by one: {names}", names=", ".join(epochs)),
        seen=say(
            "its neighbours' epochs go on one by one: {names}", names=", ".join(good) or "none"
        ),
        where="their logs",
        passed=bool(good) and len(good) == len(epochs),
    )


def _missing(before: Processes, now: Processes) -> list[Process]:
    alive = {(process.pid, process.started_at_s) for process in now.found}
    return [p for p in before.found if (p.pid, p.started_at_s) not in alive]


def _gone(before: Processes, now: Processes) -> str:
    return ", ".join(process.name for process in _missing(before, now)) or "nobody"
