"""Idle devices are given back: one of each of three kinds is stopped by its rule, a service is not."""

from __future__ import annotations

from functools import partial

from scheduler.core.idle import Limits, RuleKind
from scheduler.core.vocabulary import Kind
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import answers, settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage
from scheduler.operations import idle
from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import workspace

NUMBER = "idle"
TITLE = "Idle devices are given back by a rule for each kind; inference has none"
LIMIT_S = 12
#: Name, kind, preemptibility set by hand, which rule is for it.
QUIET = (
    ("quiet-training", Kind.TRAINING, None, RuleKind.TRAINING),
    ("quiet-desk", Kind.WORKSPACE, True, RuleKind.PREEMPTIBLE_WORKSPACE),
    ("quiet-lab", Kind.WORKSPACE, False, RuleKind.NON_PREEMPTIBLE_WORKSPACE),
)

units = article_units


def carry_out(stage: Stage) -> None:
    """Set the three rules, let one of each kind do nothing, and read what becomes of them."""
    sheet, scene = stage.sheet, stage.scene
    share_mgpu = max(1, stage.layout.training_mgpu // 3)
    for rule in RuleKind:
        _set_rule(stage, rule)
    stage.submit_service("chat", project="dev-chat", mgpu=stage.layout.chat_mgpu)
    stage.wait_for_services(["chat"])
    stage.submit_training("busy", project="unit-b", mgpu=stage.layout.training_mgpu)
    for name, kind, preemptible, _rule in QUIET:
        scene.submit(
            name,
            project="unit-a",
            kind=kind,
            mgpu=share_mgpu,
            command=workspace(),
            preemptible=preemptible,
        )
    names = [name for name, _kind, _preemptible, _rule in QUIET]
    began = stage.wait_for_processes(lambda found: all(found.of(name) for name in (*names, "busy")))
    sheet.given(
        say(
            "rules of {limit_s} s idle time in dev-test for trainings and both sorts of "
            "workspaces; one of each of {share} that computes nothing, a training that "
            "computes, a service without traffic",
            limit_s=LIMIT_S,
            share=gpus(share_mgpu),
        )
    )
    sheet.when("the time of the rules has passed")
    found = stage.wait_for_processes(lambda seen: not any(seen.of(name) for name in names))
    for name in names:
        _check_that_it_ended(stage, name, did_run=bool(began.of(name)), runs=bool(found.of(name)))
    sheet.check(
        expected="busy goes on, the service answers",
        seen=say(
            "busy {part}, the service {answers}",
            part="goes on" if found.of("busy") else "has ended",
            answers="answers" if answers(found.of("chat")) else "does not answer",
        ),
        where=say("{place} and HTTP to the process", place=PROCESS_TABLE),
    )
    _not_for_inference(stage)


def _check_that_it_ended(stage: Stage, name: str, *, did_run: bool, runs: bool) -> None:
    """Check that a process that ran is gone, and that its page says by which rule."""
    sheet = stage.sheet
    there = "runs" if runs else "has ended"
    was = "ran" if did_run else "never ran"
    sheet.check(
        expected=say("{name} ran and has ended", name=name),
        seen=say("{name} {was} and {there}", name=name, was=was, there=there),
        where=PROCESS_TABLE,
    )
    page = settle(
        partial(stage.workload_page, name),
        until=lambda text: "Stopped" in text,
        within_s=stage.patience_s,
    )
    sheet.check(
        expected=say("{name}: Stopped, by its rule of {limit_s} s", name=name, limit_s=LIMIT_S),
        seen=say("{name}: Stopped, by its rule of {limit_s} s", name=name, limit_s=LIMIT_S)
        if "Stopped" in page and f"its rule of {LIMIT_S} s stops it" in page
        else say("{name}: its page does not say so", name=name),
        where="the workload's page",
    )


def _set_rule(stage: Stage, kind: str) -> None:
    idle.set_policy(
        place=idle.Place(department_id=stage.scene.departments["dev-test"]),
        kind=kind,
        limits=Limits(idle_limit_s=LIMIT_S),
        authority=SYSTEM,
        now=stage.scene.now(),
    )


def _not_for_inference(stage: Stage) -> None:
    sheet = stage.sheet
    sheet.when("the same rule is asked for inference")
    try:
        _set_rule(stage, Kind.INFERENCE)
        seen = "accepted"
    except idle.PolicyRefused as refused:
        named = "scale to zero" in str(refused)
        seen = say("refused, scale to zero {part}", part="named" if named else "not named")
    sheet.check(
        expected="refused, scale to zero named", seen=seen, where="the operation's own answer"
    )
