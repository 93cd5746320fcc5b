"""Verification 7: replicas follow the load, to zero and up again, nothing is lost; idle GPUs come back."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from scheduler.core.autoscale import Metric
from scheduler.management.verify import serving, v_idle
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage

NUMBER = "7"
TITLE = (
    "Replicas follow the load, to zero and back, no request is lost; idle devices are given back"
)
REPLICA_MGPU = 20
PACE = ("--token-seconds", "0.05")
#: A request of so many tokens takes about two seconds.
TOKENS = 40
HELD = 20
STEADY_S = 12.0
#: A number that no replica has on its metrics page.
POSTED = "jobs_in_the_queue"

units = article_units


def carry_out(stage: Stage) -> None:
    """One service under load, at rest and woken; one each by the other metrics; then the idle rules."""
    key = serving.make_key(stage.scene, project="prod-inference")
    stage.sheet.given(
        say(
            "a service of {replica} GPU a replica, 0 to 3, another one above 2 requests in "
            "flight (target 1.4); window {window_s} s, panic window 1 s, grace at zero "
            "{zero_grace_s} s (60 s, 6 s and 30 s unless shortened)",
            replica=gpus(REPLICA_MGPU),
            window_s=serving.WINDOW_S,
            zero_grace_s=serving.ZERO_GRACE_S,
        )
    )
    serving.submit(
        stage.scene,
        "tide",
        project="prod-inference",
        mgpu=REPLICA_MGPU,
        replicas=(0, 3),
        scaling=serving.scaling_by(Metric.CONCURRENCY, 2),
        more=PACE,
    )
    stage.wait_for_processes(lambda found: bool(found.of("tide")))
    _up(stage, key)
    _to_zero(stage)
    _woken(stage, key)
    _other_metrics(stage, key)
    _posted_number(stage, key)
    v_idle.carry_out(stage)


def _up(stage: Stage, key: str) -> None:
    sheet = stage.sheet
    sheet.when("four callers keep four requests in flight")
    began = datetime.now(tz=UTC)
    with serving.calling(stage, key=key, model="tide", callers=4, tokens=TOKENS) as callers:
        seen = _settled(stage, "tide", "3/0-3")
        settled = datetime.now(tz=UTC)
        sheet.check(expected="3/0-3", seen=seen, where="page /inference")
        sheet.check(
            expected="3 processes",
            seen=say(
                "{who} processes",
                who=len(stage.scene.processes().starting_with("tide")),
            ),
            where=PROCESS_TABLE,
        )
        time.sleep(STEADY_S)
    detail = serving.read_detail(stage, "tide")
    sheet.check(
        expected="3",
        seen=serving.changes(detail, since=settled),
        where=say(
            "recorded series: wanted over {steady_s} s of steady load", steady_s=f"{STEADY_S:g}"
        ),
    )
    peak = max((point.ready for point in detail.points if point.at >= began), default=0)
    sheet.check(expected="3", seen=str(peak), where="recorded series: answering")
    sheet.check(
        expected=f"{len(callers.answers)} x 200",
        seen=callers.statuses,
        where="answers through the gateway",
    )


def _to_zero(stage: Stage) -> None:
    sheet = stage.sheet
    sheet.when("nobody asks any more")
    began = datetime.now(tz=UTC)
    patience_s = stage.patience_s + 4 * serving.WINDOW_S
    seen = settle(
        lambda: serving.read_replicas(stage, "tide"),
        until=lambda said: said == "0/0-3",
        within_s=patience_s,
    )
    sheet.check(expected="0/0-3", seen=seen, where="page /inference")
    gone = settle(stage.scene.processes, until=lambda found: not found.of("tide"), within_s=20)
    sheet.check(
        expected="0 processes",
        seen=say("{who} processes", who=len(gone.starting_with("tide"))),
        where=PROCESS_TABLE,
    )
    wanted = serving.changes(serving.read_detail(stage, "tide"), since=began).split(", ")
    numbers = [int(number) for number in wanted if number]
    sheet.check(
        expected="never more, to 0",
        seen="never more, to 0" if _falls(numbers) else ", ".join(wanted),
        where=say("recorded series: wanted {wanted}", wanted=", ".join(wanted)),
    )


def _falls(numbers: list[int]) -> bool:
    return bool(numbers) and numbers == sorted(numbers, reverse=True) and numbers[-1] == 0


def _woken(stage: Stage, key: str) -> None:
    sheet = stage.sheet
    sheet.when(say("{held} requests arrive at once at zero replicas", held=HELD))
    answers = serving.ask_at_once(stage, key=key, model="tide", count=HELD)
    sheet.check(expected=f"{HELD} x 200", seen=serving.in_words(answers), where="answers, all held")
    warm = [serving.ask(stage, key=key, model="tide") for _ in range(5)]
    cold_ms = settle(
        lambda: serving.read_detail(stage, "tide").row.cold_start_ms,
        until=lambda ms: ms is not None,
        within_s=stage.patience_s,
    )
    longest_s = max(answer.queued_ms for answer in answers) / 1000
    sheet.check(
        expected="a cold start that is measured",
        seen="a cold start that is measured" if cold_ms else "none is recorded",
        where=say(
            "service: cold {cold_ms} s, longest held {longest_s} s; warm {warm} s an answer",
            cold_ms=f"{(cold_ms or 0) / 1000:.1f}",
            longest_s=f"{longest_s:.1f}",
            warm=f"{serving.median_s(warm):.2f}",
        ),
    )


def _other_metrics(stage: Stage, key: str) -> None:
    cases: tuple[tuple[str, Metric, int, int, dict[str, int | str], str], ...] = (
        ("rate", Metric.THROUGHPUT, 1, 8, {}, "above 1 request a second"),
        ("slow", Metric.LATENCY, 500, TOKENS, {}, "above 500 ms"),
        (
            "own",
            Metric.CUSTOM,
            1,
            TOKENS,
            {"gauge_name": "requests_in_flight"},
            "its gauge above 1",
        ),
    )
    for name, metric, threshold, tokens, more, words in cases:
        stage.sheet.given(
            say(
                "a service of 1 to 2 replicas, another one by {metric}: {words}",
                metric=metric,
                words=words,
            )
        )
        stage.sheet.when("four callers ask without a pause")
        serving.submit(
            stage.scene,
            name,
            project="prod-inference",
            mgpu=REPLICA_MGPU,
            replicas=(1, 2),
            scaling=serving.scaling_by(metric, threshold, **more),
            more=PACE,
        )
        _settled(stage, name, "1/1-2")
        with serving.calling(stage, key=key, model=name, callers=4, tokens=tokens) as callers:
            seen = _settled(stage, name, "2/1-2")
        stage.sheet.check(expected="2/1-2", seen=seen, where="page /inference")
        stage.sheet.check(
            expected=f"{len(callers.answers)} x 200", seen=callers.statuses, where="answers"
        )
        stage.scene.delete(name)


def _posted_number(stage: Stage, key: str) -> None:
    """Scale by a number that is posted: nobody calls, and no replica says it."""
    stage.sheet.given(
        say(
            "a service of 1 to 2 replicas, another one by {metric}: {words}",
            metric=Metric.CUSTOM,
            words="a posted number above 2",
        )
    )
    stage.sheet.when("4 is posted twice a second, and nobody asks for an answer")
    serving.submit(
        stage.scene,
        "told",
        project="prod-inference",
        mgpu=REPLICA_MGPU,
        replicas=(1, 2),
        scaling=serving.scaling_by(Metric.CUSTOM, 2, gauge_name=POSTED),
        more=PACE,
    )
    _settled(stage, "told", "1/1-2")
    with serving.posting(
        stage, key=key, project="prod-inference", name="told", metric=POSTED, value=4
    ) as posts:
        seen = _settled(stage, "told", "2/1-2")
    stage.sheet.check(expected="2/1-2", seen=seen, where="page /inference")
    stage.sheet.check(
        expected=f"{len(posts.answers)} x 200",
        seen=posts.statuses,
        where="answers to what is posted",
    )
    stage.scene.delete("told")


def _settled(stage: Stage, name: str, expected: str) -> str:
    return settle(
        lambda: serving.read_replicas(stage, name),
        until=lambda said: said == expected,
        within_s=stage.patience_s,
    )
