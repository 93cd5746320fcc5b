"""Verification 2: services of several projects share one card and answer through one address."""

from __future__ import annotations

from scheduler.core.autoscale import Metric
from scheduler.management.verify import serving, sources
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.readers import settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage

NUMBER = "2"
TITLE = "Three services of three projects on one card, behind one address"
SERVICES = (("chat", "dev-chat"), ("embed", "dev-embed"), ("answers", "prod-inference"))
#: The keys: whose they are, and what each is to see.
KEYS = (
    ("dev-chat", "", "chat"),
    ("dev-embed", "", "embed"),
    ("prod-inference", "", "answers"),
    ("", "dev-test", "chat, embed"),
)

units = article_units


def carry_out(stage: Stage) -> None:
    """Start the three, ask each through the one address with each key, and read what was counted."""
    layout, sheet = stage.layout, stage.sheet
    amounts = {"chat": layout.chat_mgpu, "embed": layout.embed_mgpu, "answers": layout.answers_mgpu}
    shares = ", ".join(f"{name} {gpus(amounts[name])}" for name, _ in SERVICES)
    sheet.given(
        say(
            "{devices} GPU; services of three projects: {shares}",
            devices=gpus(layout.devices * 1000),
            shares=shares,
        )
    )
    sheet.when("a data source is defined once, and all three are submitted with it")
    source = sources.define(stage.scene)
    for name, project in SERVICES:
        serving.submit(
            stage.scene,
            name,
            project=project,
            mgpu=amounts[name],
            replicas=(1, 1),
            scaling=serving.scaling_by(Metric.CONCURRENCY, 100),
            source_ids=[source.asset_id],
        )
    found = stage.wait_for_processes(lambda seen: all(seen.of(name) for name, _ in SERVICES))
    sheet.check(
        expected=", ".join(f"{name} {gpus(amounts[name])}" for name, _ in SERVICES),
        seen=", ".join(f"{name} {gpus(found.mgpu(name))}" for name, _ in SERVICES),
        where=say("{place}: what each process was given", place=PROCESS_TABLE),
    )
    settle(
        lambda: [serving.read_replicas(stage, name) for name, _ in SERVICES],
        until=lambda said: said == ["1/1"] * len(SERVICES),
        within_s=stage.patience_s,
    )
    _mounted(stage, source)
    _processes_of_the_card(stage, amounts)
    _ask_with_each_key(stage)
    _usage(stage)


def _mounted(stage: Stage, source: sources.Defined) -> None:
    """Read the source's one file through the working directory of each of the three processes."""
    found = stage.scene.processes()
    read = {name: sources.read(found.of(name), source) for name, _ in SERVICES}
    stage.sheet.check(
        expected=", ".join(f"{name}: {source.text}" for name, _ in SERVICES),
        seen=", ".join(f"{name}: {text}" for name, (text, _place) in read.items()),
        where="the data source in the working directory of each process",
    )
    places = sorted({place for _text, place in read.values()})
    stage.sheet.check(
        expected=source.tree, seen=", ".join(places), where="the one folder that all three lead to"
    )


def _processes_of_the_card(stage: Stage, amounts: dict[str, int]) -> None:
    """Compare the GPU's own page with the process table, and what is used with what was granted."""
    pids = {
        name: process.pid
        for name, _ in SERVICES
        if (process := stage.scene.processes().of(name)) is not None
    }
    seen = settle(
        lambda: sources.read_processes_of_devices(stage),
        until=lambda rows: (
            len(rows) == len(SERVICES) and all(row.used_mib for row in rows.values())
        ),
        within_s=stage.patience_s,
    )
    granted = {name: stage.layout.slice_mib(amounts[name]) for name, _ in SERVICES}
    stage.sheet.check(
        expected=", ".join(f"{n} {pids.get(n)}: {granted[n]} MiB" for n, _ in SERVICES),
        seen=", ".join(
            f"{name} {pids.get(name)}: {seen[pids[name]].granted_mib} MiB"
            for name, _ in SERVICES
            if pids.get(name) in seen
        ),
        where="the GPU's page: processes with the memory that each was granted",
    )
    used = {name: seen[pid].used_mib for name, pid in pids.items() if pid in seen}
    stage.sheet.check(
        expected="above 0 and within what was granted",
        seen=", ".join(f"{name} {used.get(name)} MiB" for name, _ in SERVICES),
        where="the GPU's page: memory used",
        passed=all(0 < (used.get(name) or 0) <= granted[name] for name, _ in SERVICES),
    )


def _ask_with_each_key(stage: Stage) -> None:
    sheet = stage.sheet
    for project, department, models in KEYS:
        key = serving.make_key(stage.scene, project=project, department=department)
        sheet.when(say("the key of {department} is used", department=project or department))
        sheet.check(
            expected=models, seen=serving.list_models(stage, key=key), where="GET /v1/models"
        )
        said = {name: serving.ask(stage, key=key, model=name).status for name, _ in SERVICES}
        allowed = models.split(", ")
        sheet.check(
            expected=", ".join(f"{n} {200 if n in allowed else 404}" for n, _ in SERVICES),
            seen=", ".join(f"{name} {status}" for name, status in said.items()),
            where="POST /v1/chat/completions at one address",
        )


def _usage(stage: Stage) -> None:
    """Each service was asked once with its project's key; the team's key asked two of them."""
    expected = {(p or d, model) for p, d, models in KEYS for model in models.split(", ")}

    def counted() -> set[tuple[str, str]]:
        mine = {stage.scene.called(project) for _, project in SERVICES}
        rows = serving.list_usage()
        return {
            (row.key_name, row.model)
            for row in rows
            if row.project_name in mine and row.requests == 1 and row.output_tokens > 0
        }

    seen = settle(counted, until=lambda found: found == expected, within_s=stage.patience_s)
    stage.sheet.when("what was used is read")
    stage.sheet.check(
        expected=_pairs(expected), seen=_pairs(seen), where="usage by key and model, with tokens"
    )
    _costs(stage, expected)


def _costs(stage: Stage, expected: set[tuple[str, str]]) -> None:
    """Where GPUs have a price, each of these uses costs something, and nobody else pays for it."""
    mine = {stage.scene.called(project) for _, project in SERVICES}
    rows = [row for row in serving.list_usage() if row.project_name in mine]
    cost = {(row.key_name, row.model) for row in rows if row.cost_micro > 0}
    has_price = serving.has_price()
    stage.sheet.check(
        expected=_pairs(expected if has_price else set()),
        seen=_pairs(cost),
        where="cost by key and model" if has_price else "cost by key and model, without a price",
    )
    teams = {(row.model, row.project_name) for row in rows}
    stage.sheet.check(
        expected=_pairs({(name, stage.scene.called(project)) for name, project in SERVICES}),
        seen=_pairs(teams),
        where="usage by model and team",
    )


def _pairs(found: set[tuple[str, str]]) -> str:
    return ", ".join(f"{key}: {model}" for key, model in sorted(found)) or "none"
