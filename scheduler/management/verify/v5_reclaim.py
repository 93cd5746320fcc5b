"""Verification 5: a guarantee comes back; asking for more than it takes nothing from anyone."""

from __future__ import annotations

import time

from scheduler.management.verify import given
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import (
    Process,
    Processes,
    identities,
    read_training,
    settle,
)
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import DWELL_S, PROCESS_TABLE, Stage

NUMBER = "5"
TITLE = "Reclaim: what was borrowed comes back for a guarantee, and for nothing else"
SUBMITTED_BY_B = 3

units = article_units


def carry_out(stage: Stage) -> None:
    """Let B ask for more than its guarantee, then C for its own."""
    before = _a_borrows(stage)
    _b_asks_for_three(stage, before)
    _c_asks_for_its_own(stage)


def _a_borrows(stage: Stage) -> Processes:
    """Let A fill all but one place below the limit."""
    layout = stage.layout
    one = layout.training_mgpu
    count = layout.trainings_under(layout.dev_limit_mgpu) - 1
    given.start_services(stage)
    given.submit_trainings(stage, project="unit-a", prefix="a", count=count)
    found = stage.wait_for_processes(lambda found: len(found.starting_with("a-")) == count)
    stage.wait_for_epochs(found, "a-", more=2)
    stage.sheet.given(
        say(
            "{services}; unit-a runs {count} trainings of {one}, {one_2} of it borrowed; "
            "dev-test's limit {dev_limit}; the guarantees of unit-b {one_3} and unit-c "
            "{one_4} are unused",
            services=given.services_in_words(stage),
            count=count,
            one=gpus(one),
            one_2=gpus((count - 1) * one),
            dev_limit=gpus(layout.dev_limit_mgpu),
            one_3=gpus(one),
            one_4=gpus(2 * one),
        )
    )
    return found


def _b_asks_for_three(stage: Stage, before: Processes) -> None:
    sheet = stage.sheet
    one = stage.layout.training_mgpu
    sheet.when(
        say(
            "unit-b submits {submitted_by_b} trainings of {one}",
            submitted_by_b=SUBMITTED_BY_B,
            one=gpus(one),
        )
    )
    given.submit_trainings(stage, project="unit-b", prefix="b", count=SUBMITTED_BY_B)
    stage.wait_for_processes(lambda found: found.of("b-1") is not None)
    stage.wait_for_page(lambda page: len(page.waiting) == SUBMITTED_BY_B - 1)
    time.sleep(DWELL_S)
    now = stage.scene.processes()
    sheet.check(
        expected=say(
            "nobody of A has changed: {who}",
            who=identities(before.starting_with("a-")),
        ),
        seen=say(
            "nobody of A has changed: {who}",
            who=identities(now.starting_with("a-")),
        ),
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="one of B's runs: b-1",
        seen=say("one of B's runs: {names}", names=now.names("b-")),
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="two wait: b-2, b-3",
        seen=say("two wait: {waits}", waits=stage.page().waits("b-")),
        where=stage.page_name,
    )


def _c_asks_for_its_own(stage: Stage) -> None:
    sheet, layout = stage.sheet, stage.layout
    before = stage.scene.processes()
    sheet.when(
        say(
            "then unit-c, which holds nothing, submits one of {training}",
            training=gpus(layout.training_mgpu),
        )
    )
    given.submit_trainings(stage, project="unit-c", prefix="c", count=1)
    stage.wait_for_processes(lambda found: found.of("c-1") is not None)
    stage.wait_for_page(lambda page: len(page.waiting) == SUBMITTED_BY_B)
    time.sleep(DWELL_S)
    now = stage.scene.processes()
    left = [p for p in before.starting_with("a-") if now.of(p.name) != p]
    still = [p for p in before.starting_with("a-") if now.of(p.name) == p]
    borrowed = len(before.starting_with("a-")) - 1
    sheet.check(
        expected=say(
            "exactly one of A's {borrowed} borrowed places is given back; {borrowed_2} of "
            "A's go on with their pids",
            borrowed=borrowed,
            borrowed_2=borrowed,
        ),
        seen=say(
            "{left} gave its place back; {still} go on",
            left=", ".join(p.name for p in left) or "nobody",
            still=identities(still),
        ),
        where=PROCESS_TABLE,
        passed=len(left) == 1 and len(still) == borrowed,
    )
    sheet.check(
        expected=say(
            "B's within its guarantee is not touched: {who}",
            who=identities(before.starting_with("b-")),
        ),
        seen=say(
            "B's within its guarantee is not touched: {who}",
            who=identities(now.starting_with("b-")),
        ),
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="C's runs: c-1",
        seen=say("C's runs: {names}", names=now.names("c-")),
        where=PROCESS_TABLE,
    )
    if len(left) != 1:
        return
    victim = left[0]
    _check_victim(stage, victim)


def _check_victim(stage: Stage, victim: Process) -> None:
    sheet, name = stage.sheet, victim.name
    said_so = read_training(victim.key).has("received SIGTERM")
    sheet.check(
        expected=say("{name} received SIGTERM and had saved", name=name),
        seen=f"{name} {'received SIGTERM and had saved' if said_so else 'says nothing of it'}",
        where="its log",
    )
    page = stage.page()
    sheet.check(
        expected=say("A's waits again: {name}", name=name),
        seen=say("A's waits again: {name}", name=page.waits("a-")),
        where=stage.page_name,
    )
    event = "Reclaimed:"
    text = settle(
        lambda: stage.workload_page(name),
        until=lambda text: event in text,
        within_s=stage.patience_s,
    )
    served = f"{stage.scene.called('unit-c')} / c-1"
    is_told = event in text and served in text.partition(event)[2][:200]
    sheet.check(
        expected=say("{event} for {served}, and no preemption", event=event, served=served),
        seen=say("{event} for {served}, and no preemption", event=event, served=served)
        if is_told and "Preempted:" not in text
        else text.partition(event)[2][:160] or "no such event",
        where=say("page /workloads/{id}", id=stage.scene.workloads[name]),
    )
