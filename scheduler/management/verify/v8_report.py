"""Verification 8: an hour of use in a minute, and a report that equals the figures worked out by hand.

The script holds, borrows, changes a guarantee, preempts and leaves idle, with real processes. What was
held and what samples said is read from the lists behind the figures; amounts, guarantees and their
change are those of the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from scheduler.core.vocabulary import Kind
from scheduler.management.verify import given
from scheduler.management.verify.by_hand import hours
from scheduler.management.verify.layout import Layout, article_units, gpus
from scheduler.management.verify.readers import settle
from scheduler.management.verify.report_check import Script, asked, equals_by_hand
from scheduler.management.verify.said import Said, say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit, service

NUMBER = "8"
TITLE = "The report equals what is worked out by hand, to the last digit"
CLOSED = "closed"
#: How long the open report is watched, and how many different values each of its hours must have.
MESSAGES = 5
RISES = 3


def units(layout: Layout) -> Sequence[Unit]:
    """Return the article's units, and a project whose limit is its guarantee."""
    one = layout.training_mgpu
    closed = Unit(
        name=CLOSED, department="dev-test", quota_mgpu=one, limit_mgpu=one, over_quota=False
    )
    return (*article_units(layout), closed)


def carry_out(stage: Stage) -> None:
    """Carry the script out, then hold the report against it."""
    script = Script(stage=stage, begin=datetime.now(tz=UTC), units=units(stage.layout))
    _idle_services_and_one_training(script)
    _borrows(script)
    _moves_on_the_socket(script)
    _is_guaranteed_more(script)
    _is_preempted(script)
    end = _ends(script)
    if end is not None:
        equals_by_hand(script, end)


def _idle_services_and_one_training(script: Script) -> None:
    stage, layout = script.stage, script.stage.layout
    stage.sheet.given(given.services_in_words(stage))
    stage.sheet.when(
        say(
            "nobody asks them anything; unit-a trains with {training}",
            training=gpus(layout.training_mgpu),
        )
    )
    given.start_services(stage)
    for name, project, mgpu in (
        ("chat", "dev-chat", layout.chat_mgpu),
        ("embed", "dev-embed", layout.embed_mgpu),
        ("answers", "prod-inference", layout.answers_mgpu),
    ):
        script.note(name, project=project, mgpu=mgpu)
    script.train("a-1", project="unit-a")
    script.wait_for("chat", "embed", "answers", "a-1")
    idle_mgpu = layout.dev_services_mgpu + layout.answers_mgpu
    held_mgpu = idle_mgpu + layout.training_mgpu
    page = stage.wait_for_page(
        lambda page: (page.held_mgpu, page.idle_mgpu) == (held_mgpu, idle_mgpu)
    )
    stage.sheet.check(
        expected=_tiles(held_mgpu, idle_mgpu),
        seen=_tiles(page.held_mgpu, page.idle_mgpu),
        where=stage.page_name,
    )


def _tiles(held_mgpu: int, idle_mgpu: int) -> Said:
    return say("Allocated {held}, Idle {idle}", held=gpus(held_mgpu), idle=gpus(idle_mgpu))


def _borrows(script: Script) -> None:
    stage, layout = script.stage, script.stage.layout
    one = layout.training_mgpu
    count = (layout.dev_limit_mgpu - layout.dev_services_mgpu - one) // one
    stage.sheet.when(
        say("unit-a, guaranteed {one}, trains with {count} times {one}", one=gpus(one), count=count)
    )
    names = [f"a-{number}" for number in range(1, count + 1)]
    for name in names[1:]:
        script.train(name, project="unit-a")
    script.wait_for(*names)
    page = stage.wait_for_page(lambda page: page.borrowed_mgpu == (count - 1) * one)
    stage.sheet.check(
        expected=say("Borrowed {amount}", amount=gpus((count - 1) * one)),
        seen=say("Borrowed {amount}", amount=gpus(page.borrowed_mgpu)),
        where=stage.page_name,
    )


def _moves_on_the_socket(script: Script) -> None:
    stage = script.stage
    stage.sheet.when("the report of the running hour is open for some seconds")
    told = stage.browser.listen(
        "/ws/report/",
        asked(script, script.begin + timedelta(hours=1)),
        messages=MESSAGES,
        within_s=stage.patience_s,
    )
    exact = [message["exact"] for message in told if message.get("t") == "report"]
    for name in ("deserved", "over_quota", "idle"):
        amounts = [int(one[name]) for one in exact]
        # Between two messages there may have been no sample, and then no word of idleness.
        rises = amounts == sorted(amounts) and len(set(amounts)) >= RISES
        stage.sheet.check(
            expected=say("hours rise while one watches, and never fall: {figure}", figure=name),
            seen=" ≤ ".join(hours(amount, places=6) for amount in amounts) or "no message",
            where="the WebSocket of the report",
            passed=rises,
        )


def _is_guaranteed_more(script: Script) -> None:
    stage, one = script.stage, script.stage.layout.training_mgpu
    stage.sheet.when(say("unit-a's guarantee is raised to {amount}", amount=gpus(2 * one)))
    script.changed = stage.scene.set_guarantee("unit-a", quota_mgpu=2 * one)
    script.look()
    page = stage.wait_for_page(
        lambda page: page.queue(stage.scene.called("unit-a")).get("quota") == 2 * one
    )
    seen = page.queue(stage.scene.called("unit-a")).get("quota") or 0
    stage.sheet.check(
        expected=say("unit-a's guarantee {amount}", amount=gpus(2 * one)),
        seen=say("unit-a's guarantee {amount}", amount=gpus(int(seen))),
        where=stage.page_name,
    )


def _is_preempted(script: Script) -> None:
    stage, one = script.stage, script.stage.layout.training_mgpu
    stage.sheet.when(
        say(
            "a service of {amount} is submitted to a full project whose limit is its guarantee",
            amount=gpus(one),
        )
    )
    script.train("small", project=CLOSED)
    script.wait_for("small")
    stage.scene.submit(
        "urgent",
        project=CLOSED,
        kind=Kind.INFERENCE,
        mgpu=one,
        command=service(model="urgent"),
    )
    script.note("urgent", project=CLOSED, mgpu=one)
    script.wait_for("urgent")
    names = script.look().names("urgent")
    waits = stage.wait_for_page(lambda page: page.waits("small") == "small").waits("small")
    both = "running of it: {names}; waiting: {waits}"
    stage.sheet.check(
        expected=say(both, names="urgent", waits="small"),
        seen=say(both, names=names, waits=waits),
        where=say("{place} and {page}", place=PROCESS_TABLE, page=stage.page_name),
    )


def _ends(script: Script) -> datetime | None:
    stage = script.stage
    stage.sheet.when("all of it is deleted, and the period ends")
    for name in ("small", *sorted(script.work.keys() - {"small"})):
        stage.scene.delete(name)
    settle(script.look, until=lambda found: not found.found, within_s=stage.patience_s)
    page = stage.wait_for_page(lambda page: page.held_mgpu == 0)
    stage.sheet.check(
        expected=_tiles(0, 0),
        seen=_tiles(page.held_mgpu, page.idle_mgpu),
        where=stage.page_name,
    )
    return datetime.now(tz=UTC) if page.held_mgpu == 0 else None
