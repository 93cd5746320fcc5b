"""Verification 6: inside one project that can't borrow, higher priority takes the place; it resumes."""

from __future__ import annotations

import time
from dataclasses import replace

from scheduler.core.units import UNLIMITED_MGPU
from scheduler.management.verify.layout import Layout, article_units, gpus
from scheduler.management.verify.readers import (
    Process,
    TrainingLog,
    identities,
    read_training,
    settle,
)
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import DWELL_S, PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit

NUMBER = "6"
TITLE = "Preemption inside one project, and a training that goes on where it was"
SAVED = "received SIGTERM (preempted) - latest checkpoint is already on disk"


def units(layout: Layout) -> tuple[Unit, ...]:
    """Return the departments untouched, and two full projects: one may not borrow, one may."""
    one = layout.answers_mgpu
    departments = [unit for unit in article_units(layout) if not unit.department]
    closed = Unit(
        name="closed",
        department="dev-test",
        quota_mgpu=2 * one,
        limit_mgpu=2 * one,
        over_quota=False,
    )
    borrows = replace(closed, name="open", limit_mgpu=UNLIMITED_MGPU, over_quota=True)
    return (*departments, closed, borrows)


def carry_out(stage: Stage) -> None:
    """Preempt in the project that may not borrow, resume, then do the same in the one that may."""
    training, service = _fill(stage, project="closed", prefix="")
    if training is None or service is None:
        return
    if not _is_preempted(stage, training, service):
        return
    _resumes(stage, training, service)
    for name in ("service-1", "training"):
        stage.scene.delete(name)
    stage.wait_for_processes(lambda found: not found.found)
    _control(stage)


def _fill(stage: Stage, *, project: str, prefix: str) -> tuple[Process | None, Process | None]:
    """Fill a project's guarantee with a service and a training of the same amount."""
    one = stage.layout.answers_mgpu
    limit = "limit equal to it" if project == "closed" else "borrowing on, no limit"
    stage.sheet.given(
        say(
            "a project with guarantee {one}, {limit}; its department's limit untouched, "
            "{capacity} of the hardware free",
            one=gpus(2 * one),
            limit=limit,
            capacity=gpus(stage.layout.capacity_mgpu),
        )
    )
    stage.sheet.when(
        say("a service (150) and a training (40) of {one} each are submitted", one=gpus(one))
    )
    stage.submit_service(f"{prefix}service-1", project=project, mgpu=one)
    stage.submit_training(f"{prefix}training", project=project, mgpu=one)
    names = (f"{prefix}training", f"{prefix}service-1")
    stage.wait_for_services(names[1:])
    found = stage.wait_for_processes(lambda found: all(found.of(name) for name in names))
    stage.wait_for_epochs(found, f"{prefix}training", more=4)
    training, service = (found.of(name) for name in names)
    stage.sheet.check(
        expected="both run",
        seen="both run" if training and service else say("running: {names}", names=found.names()),
        where=PROCESS_TABLE,
    )
    stage.sheet.given(
        say(
            "a project with guarantee {one}, {limit}, full: a service (150) and a training "
            "(40) of {one_2} each; its department's limit untouched, {one_3} of the "
            "hardware free",
            one=gpus(2 * one),
            limit=limit,
            one_2=gpus(one),
            one_3=gpus(stage.layout.capacity_mgpu - 2 * one),
        )
    )
    return training, service


def _is_preempted(stage: Stage, training: Process, service: Process) -> bool:
    sheet = stage.sheet
    sheet.when(
        say(
            "a second service of {answers} is submitted to the project",
            answers=gpus(stage.layout.answers_mgpu),
        )
    )
    stage.submit_service("service-2", project="closed", mgpu=stage.layout.answers_mgpu)
    stage.wait_for_processes(lambda found: found.of("training") is None)
    now = stage.wait_for_services(["service-2"])
    said_so = read_training(training.key).has(SAVED)
    sheet.check(
        expected=say("training: {line}", line=SAVED),
        seen=say("training: {line}", line=SAVED) if said_so else "training: no such line",
        where="its log",
    )
    sheet.check(
        expected="running: service-1, service-2",
        seen=say("running: {names}", names=now.names()),
        where=PROCESS_TABLE,
    )
    _check_same(stage, service)
    if not said_so:
        return False
    page = stage.wait_for_page(lambda page: page.waits() == "training")
    sheet.check(
        expected="waiting: training",
        seen=say("waiting: {waits}", waits=page.waits()),
        where=stage.page_name,
    )
    _check_event(stage, "Preempted:", absent="Reclaimed:")
    return True


def _resumes(stage: Stage, training: Process, service: Process) -> None:
    sheet = stage.sheet
    before = read_training(training.key)
    sheet.when("the second service is deleted")
    stage.scene.delete("service-2")
    now = stage.wait_for_processes(lambda found: found.of("training") is not None)
    again = now.of("training")
    if again is None:
        sheet.check(
            expected="training runs again by itself", seen="it does not", where=PROCESS_TABLE
        )
        return
    after = settle(
        lambda: read_training(again.key),
        until=lambda log: len(log.epochs) >= 2,
        within_s=stage.patience_s,
    )
    sheet.check(
        expected=say(
            "resumed with (epoch, elapsed, best) = {values}",
            values=_triple(before.last_saved),
        ),
        seen=say("resumed with (epoch, elapsed, best) = {values}", values=_triple(after.resumed)),
        where="the logs of both attempts",
        passed=before.last_saved is not None and before.last_saved == after.resumed,
    )
    sheet.check(
        expected=say("the next epoch is {epoch}", epoch=_next_of(before)),
        seen=say(
            "the next epoch is {epoch}",
            epoch=after.epochs[0].number if after.epochs else "missing",
        ),
        where="its log",
    )
    sheet.check(
        expected="running: service-1, training",
        seen=say("running: {names}", names=stage.scene.processes().names()),
        where=PROCESS_TABLE,
    )
    _check_same(stage, service)
    _check_event(stage, "equal to the checkpoint", absent="Resumed with loss")


def _control(stage: Stage) -> None:
    """Do the same where the project may borrow and there is room: nobody is interrupted."""
    sheet = stage.sheet
    _fill(stage, project="open", prefix="open-")
    before = stage.scene.processes()
    sheet.when("control: the same second service is submitted where borrowing is on and has room")
    stage.submit_service("open-service-2", project="open", mgpu=stage.layout.answers_mgpu)
    stage.wait_for_services(["open-service-2"])
    time.sleep(DWELL_S)
    now = stage.scene.processes()
    kept = tuple(now.of(process.name) for process in before.starting_with("open-"))
    sheet.check(
        expected=say(
            "nobody is interrupted: {who}",
            who=identities(before.starting_with("open-")),
        ),
        seen=say(
            "nobody is interrupted: {who}", who=identities([p for p in kept if p is not None])
        ),
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="running: open-service-1, open-service-2, open-training",
        seen=say("running: {names}", names=now.names("open-")),
        where=PROCESS_TABLE,
    )


def _check_same(stage: Stage, service: Process) -> None:
    now = stage.scene.processes().of(service.name)
    stage.sheet.check(
        expected=say("the first service is the same process: {who}", who=service.identity),
        seen=say(
            "the first service is the same process: {who}", who=now.identity if now else "gone"
        ),
        where=PROCESS_TABLE,
    )


def _check_event(stage: Stage, event: str, *, absent: str) -> None:
    text = settle(
        lambda: stage.workload_page("training"),
        until=lambda text: event in text,
        within_s=stage.patience_s,
    )
    told = event if event in text else "no such event"
    stage.sheet.check(
        expected=say("an event: {event}", event=event),
        seen=say("an event: {event}, but also: {absent}", event=told, absent=absent)
        if absent in text
        else say("an event: {event}", event=told),
        where=say("page /workloads/{id}", id=stage.scene.workloads["training"]),
    )


def _triple(values: tuple[object, ...] | None) -> str:
    return ", ".join(map(str, values)) if values else "nothing"


def _next_of(log: TrainingLog) -> int | str:
    saved = log.last_saved
    return saved[0] + 1 if saved and isinstance(saved[0], int) else "unknown"
