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
        f"{given.services_in_words(stage)}; unit-a runs {count} trainings of {gpus(one)}, "
        f"{gpus((count - 1) * one)} of it borrowed; dev-test's limit {gpus(layout.dev_limit_mgpu)}; "
        f"the guarantees of unit-b {gpus(one)} and unit-c {gpus(2 * one)} are unused"
    )
    return found


def _b_asks_for_three(stage: Stage, before: Processes) -> None:
    sheet = stage.sheet
    one = stage.layout.training_mgpu
    sheet.when(f"unit-b submits {SUBMITTED_BY_B} trainings of {gpus(one)}")
    given.submit_trainings(stage, project="unit-b", prefix="b", count=SUBMITTED_BY_B)
    stage.wait_for_processes(lambda found: found.of("b-1") is not None)
    stage.wait_for_page(lambda page: len(page.waiting) == SUBMITTED_BY_B - 1)
    time.sleep(DWELL_S)
    now = stage.scene.processes()
    sheet.check(
        expected=f"nobody of A has changed: {identities(before.starting_with('a-'))}",
        seen=f"nobody of A has changed: {identities(now.starting_with('a-'))}",
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="one of B's runs: b-1",
        seen=f"one of B's runs: {now.names('b-')}",
        where=PROCESS_TABLE,
    )
    sheet.check(
        expected="two wait: b-2, b-3",
        seen=f"two wait: {stage.page().waits('b-')}",
        where=stage.page_name,
    )


def _c_asks_for_its_own(stage: Stage) -> None:
    sheet, layout = stage.sheet, stage.layout
    before = stage.scene.processes()
    sheet.when(f"then unit-c, which holds nothing, submits one of {gpus(layout.training_mgpu)}")
    given.submit_trainings(stage, project="unit-c", prefix="c", count=1)
    stage.wait_for_processes(lambda found: found.of("c-1") is not None)
    stage.wait_for_page(lambda page: len(page.waiting) == SUBMITTED_BY_B)
    time.sleep(DWELL_S)
    now = stage.scene.processes()
    left = [p for p in before.starting_with("a-") if now.of(p.name) != p]
    still = [p for p in before.starting_with("a-") if now.of(p.name) == p]
    borrowed = len(before.starting_with("a-")) - 1
    sheet.check(
        expected=f"exactly one of A's {borrowed} borrowed places is given back; {borrowed} of A's "
        "go on with their pids",
        seen=f"{', '.join(p.name for p in left) or 'nobody'} gave its place back; "
        f"{identities(still)} go on",
        where=PROCESS_TABLE,
        passed=len(left) == 1 and len(still) == borrowed,
    )
    sheet.check(
        expected=f"B's within its guarantee is not touched: {identities(before.starting_with('b-'))}",
        seen=f"B's within its guarantee is not touched: {identities(now.starting_with('b-'))}",
        where=PROCESS_TABLE,
    )
    sheet.check(expected="C's runs: c-1", seen=f"C's runs: {now.names('c-')}", where=PROCESS_TABLE)
    if len(left) != 1:
        return
    victim = left[0]
    _check_victim(stage, victim)


def _check_victim(stage: Stage, victim: Process) -> None:
    sheet, name = stage.sheet, victim.name
    said_so = read_training(victim.key).has("received SIGTERM")
    sheet.check(
        expected=f"{name} received SIGTERM and had saved",
        seen=f"{name} {'received SIGTERM and had saved' if said_so else 'says nothing of it'}",
        where="its log",
    )
    page = stage.page()
    sheet.check(
        expected=f"A's waits again: {name}",
        seen=f"A's waits again: {page.waits('a-')}",
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
        expected=f"{event} for {served}, and no preemption",
        seen=f"{event} for {served}, and no preemption"
        if is_told and "Preempted:" not in text
        else text.partition(event)[2][:160] or "no such event",
        where=f"page /workloads/{stage.scene.workloads[name]}",
    )
