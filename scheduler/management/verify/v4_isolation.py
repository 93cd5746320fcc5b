"""Verification 4: departments are independent, and each process sees and keeps to its own slice."""

from __future__ import annotations

import time

from scheduler.management.verify import given
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import Process, Processes, answers, identities, settle
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
        f"{given.services_in_words(stage)}; {running} trainings of {gpus(layout.training_mgpu)} "
        f"run in dev-test, two wait at its limit {gpus(layout.dev_limit_mgpu)}"
    )
    return found


def _production_grows(stage: Stage, before: Processes) -> None:
    layout, sheet = stage.layout, stage.sheet
    sheet.when(f"a second service of {gpus(layout.answers_mgpu)} is submitted to prod-inference")
    began = time.monotonic()
    stage.submit_service("answers-2", project="prod-inference", mgpu=layout.answers_mgpu)
    found = stage.wait_for_processes(lambda found: found.of("answers-2") is not None)
    took_s = time.monotonic() - began
    is_up = found.of("answers-2") is not None
    sheet.check(
        expected="answers-2 starts at once: it waits for nobody, and nobody is interrupted for it",
        seen=f"{'started' if is_up else 'not started'} after {took_s:.1f} s; "
        f"{_gone(before, found)} interrupted",
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
        where=f"{PROCESS_TABLE}: what each process was given",
    )
    page = stage.wait_for_page(lambda page: page.held_mgpu == total_mgpu)
    sheet.check(
        expected=f"{gpus(total_mgpu)} of {gpus(layout.capacity_mgpu)} held",
        seen=f"{gpus(page.held_mgpu)} of {gpus(layout.capacity_mgpu)} held",
        where=stage.page_name,
    )


def _trainings_go_on(stage: Stage, before: Processes, epochs: dict[str, int]) -> None:
    """Compare the trainings' processes and output with those before production grew."""
    logs = stage.wait_for_epochs(before, "train-", more=MORE_EPOCHS)
    found = stage.scene.processes()
    trainings = before.starting_with("train-")
    stage.sheet.check(
        expected=f"the same processes: {identities(trainings)}",
        seen=f"the same processes: {identities(found.starting_with('train-'))}",
        where=PROCESS_TABLE,
    )
    for name, log in logs.items():
        first, last = log.epochs[0], log.epochs[-1]
        stage.sheet.check(
            expected=f"{name}: from epoch {epochs[name]} on one by one, loss falling, from one start",
            seen=f"{name}: epochs {first.number} to {last.number}, {len(log.epochs)} of them, loss "
            f"{first.loss:.4f} to {last.loss:.4f}, trained {first.elapsed_s} to {last.elapsed_s} s, "
            f"longest pause {log.longest_pause_s} s",
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
            expected=f"{name} sees a total of {slice_mib} MiB, its slice of {layout.memory_mib}",
            seen=f"{name} sees a total of {log.total_mib} MiB, its slice of {layout.memory_mib}",
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
        f"a training in prod takes {TAKES_MIB} MiB in a slice of {gpus(SMALL_MGPU)} = {slice_mib} MiB"
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
        seen=f"greedy {'was started' if started.of('greedy') else 'was never started'} and "
        f"{'is stopped' if ended.of('greedy') is None else 'still runs'}; "
        f"{_gone(before, ended)} else is",
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
        expected=f"an event: {event}",
        seen=f"an event: {event}" if event in text else "no such event",
        where=f"page /workloads/{stage.scene.workloads['greedy']}",
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
        expected=f"its neighbours' epochs go on one by one: {', '.join(epochs)}",
        seen=f"its neighbours' epochs go on one by one: {', '.join(good) or 'none'}",
        where="their logs",
        passed=bool(good) and len(good) == len(epochs),
    )


def _missing(before: Processes, now: Processes) -> list[Process]:
    alive = {(process.pid, process.started_at_s) for process in now.found}
    return [p for p in before.found if (p.pid, p.started_at_s) not in alive]


def _gone(before: Processes, now: Processes) -> str:
    return ", ".join(process.name for process in _missing(before, now)) or "nobody"
