"""Verification 3: a limit is structural. Seven trainings are submitted; five run, two wait."""

from __future__ import annotations

import time

from scheduler.management.verify import given, pages
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import DWELL_S, PROCESS_TABLE, Stage

NUMBER = "3"
TITLE = "A limit is a wall: the rest of the card stays free while work waits"
SUBMITTED = 7

units = article_units


def carry_out(stage: Stage) -> None:
    """Submit seven under the article's limit, and again under a limit equal to the guarantee."""
    layout, sheet = stage.layout, stage.sheet
    given.start_services(stage)
    _seven(stage, prefix="train", limit_mgpu=layout.dev_limit_mgpu, note="")
    for name in [n for n in stage.scene.workloads if n.startswith("train-")]:
        stage.scene.delete(name)
    stage.wait_for_processes(lambda found: not found.starting_with("train-"))
    stage.scene.set_department("dev-test", limit_mgpu=layout.dev_mgpu)
    _seven(stage, prefix="again", limit_mgpu=layout.dev_mgpu, note=", equal to its guarantee")
    sheet.when("someone opens the pages who sees the whole cluster, but was not let in here")
    sheet.check(
        expected="no queue of this run is shown; its workloads' pages answer 404",
        seen=_seen_by_others(stage),
        where=say(
            "{page_name} and /workloads/{id}",
            page_name=stage.page_name,
            id=stage.scene.workloads["chat"],
        ),
    )


def _seven(stage: Stage, *, prefix: str, limit_mgpu: int, note: str) -> None:
    layout, sheet = stage.layout, stage.sheet
    one = gpus(layout.training_mgpu)
    running = min(SUBMITTED, layout.trainings_under(limit_mgpu))
    sheet.given(
        say(
            "{services}; dev-test's limit {limit}{note}; unit-a's guarantee {one}",
            services=given.services_in_words(stage),
            limit=gpus(limit_mgpu),
            note=note,
            one=one,
        )
    )
    sheet.when(say("seven trainings of {one} are submitted to unit-a at once", one=one))
    given.submit_trainings(stage, project="unit-a", prefix=prefix, count=SUBMITTED)
    stage.wait_for_processes(lambda found: len(found.starting_with(f"{prefix}-")) >= running)
    stage.wait_for_page(lambda page: len(page.waiting) == SUBMITTED - running)
    time.sleep(DWELL_S)
    _check_who(stage, prefix=prefix, running=running)
    _check_reasons(stage, prefix=prefix, running=running, limit_mgpu=limit_mgpu)
    _check_sums(stage, prefix=prefix, running=running)


def _check_who(stage: Stage, *, prefix: str, running: int) -> None:
    sheet = stage.sheet
    sheet.check(
        expected=say("running: {running}", running=given.names(prefix, running)),
        seen=say("running: {f}", f=stage.scene.processes().names(f"{prefix}-")),
        where=PROCESS_TABLE,
    )
    waiting = given.names(prefix, SUBMITTED - running, first=running + 1)
    sheet.check(
        expected=say("waiting: {waiting}", waiting=waiting),
        seen=say("waiting: {f}", f=stage.page().waits(f"{prefix}-")),
        where=stage.page_name,
    )


def _check_reasons(stage: Stage, *, prefix: str, running: int, limit_mgpu: int) -> None:
    layout = stage.layout
    held_mgpu = layout.dev_services_mgpu + running * layout.training_mgpu
    why = say(
        "Over department limit: {called} holds {held} of {limit} and this asks for "
        "{training}. [OverLimit]",
        called=stage.scene.called("dev-test"),
        held=gpus(held_mgpu),
        limit=gpus(limit_mgpu),
        training=gpus(layout.training_mgpu),
    )
    lines = {line.name: line for line in stage.page().waiting}
    for number in range(running + 1, SUBMITTED + 1):
        line = lines.get(f"{prefix}-{number}")
        stage.sheet.check(
            expected=f"{prefix}-{number}: {why}",
            seen=f"{prefix}-{number}: {line.why} [{line.code}]" if line else "it does not wait",
            where=stage.page_name,
        )


def _check_sums(stage: Stage, *, prefix: str, running: int) -> None:
    layout, called = stage.layout, stage.scene.called
    trainings_mgpu = running * layout.training_mgpu
    held_mgpu = trainings_mgpu + layout.dev_services_mgpu + layout.answers_mgpu
    free_mgpu = layout.capacity_mgpu - held_mgpu
    expected = _sum(trainings_mgpu, layout.dev_services_mgpu, layout.answers_mgpu, free_mgpu)
    found = stage.scene.processes()
    services = sum(found.mgpu(name) for name in ("chat", "embed"))
    seen_free = layout.capacity_mgpu - found.mgpu()
    stage.sheet.check(
        expected=expected,
        seen=_sum(found.mgpu(f"{prefix}-"), services, found.mgpu("answers"), seen_free),
        where=say("{place}: what each process was given", place=PROCESS_TABLE),
    )
    page = stage.page()
    stage.sheet.check(
        expected=expected,
        seen=_sum(
            page.held_by(called("unit-a")),
            page.held_by(called("dev-chat"), called("dev-embed")),
            page.held_by(called("prod-inference")),
            page.free_mgpu,
        ),
        where=stage.page_name,
    )


def _sum(trainings_mgpu: int, services_mgpu: int, prod_mgpu: int, free_mgpu: int) -> str:
    total = gpus(trainings_mgpu + services_mgpu + prod_mgpu)
    parts = " + ".join(gpus(part) for part in (trainings_mgpu, services_mgpu, prod_mgpu))
    return say(
        "{parts} = {total} held, {free} free", parts=parts, total=total, free=gpus(free_mgpu)
    )


def _seen_by_others(stage: Stage) -> str:
    """Say what a viewer of the cluster sees whom no rule lets into the scratch departments."""
    scene = stage.scene
    queues = [scene.called(name) for name in (*scene.departments, *scene.projects)]
    with pages.signed_in(url=stage.url, run=f"{scene.run}-other", department_ids=()) as other:
        text = other.read("overview", pool=scene.pool_name).text
        status = other.read("workload", workload_id=scene.workloads["chat"]).status_code
    shown = ", ".join(name for name in queues if name in text)
    return say(
        "{shown} is shown; its workloads' pages answer {status}",
        shown=shown or "no queue of this run",
        status=status,
    )
