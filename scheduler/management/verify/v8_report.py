"""Verification 8: an hour of use in a minute, and a report that equals the figures worked out by hand.

The script holds, borrows, changes a guarantee, preempts and leaves idle, with real processes. What was
held and what samples said is read from the lists behind the figures; amounts, guarantees and their
change are those of the script.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from scheduler.core.vocabulary import Kind
from scheduler.management.verify import given
from scheduler.management.verify.by_hand import FIGURES, Account, Stretch, add, hours, work_out
from scheduler.management.verify.layout import Layout, article_units, gpus
from scheduler.management.verify.readers import Process, Processes, boot_error_s, settle
from scheduler.management.verify.said import Said, say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit, service

NUMBER = "8"
TITLE = "The report equals what is worked out by hand, to the last digit"
CLOSED = "closed"
#: Columns of the CSV and cells of the page, by figure.
IN_CSV = {
    "allocated": "gpu_allocation_hours",
    "deserved": "gpu_deserved_quota_hours",
    "over_quota": "gpu_over_quota_hours",
    "unused": "gpu_unused_guarantee_hours",
    "idle": "gpu_idle_hours",
    "unknown": "gpu_unknown_hours",
}
_ROW = re.compile(r'<tr\sdata-row="([^"]+)">(.*?)</tr>', re.DOTALL)
_CELL = re.compile(r'data-cell="(\w+)"(?: title="([^"]*) h")?[^>]*>([^<]*)<')


def units(layout: Layout) -> Sequence[Unit]:
    """Return the article's units, and a project whose limit is its guarantee."""
    one = layout.training_mgpu
    closed = Unit(
        name=CLOSED, department="dev-test", quota_mgpu=one, limit_mgpu=one, over_quota=False
    )
    return (*article_units(layout), closed)


@dataclass(slots=True, kw_only=True)
class _Script:
    """What was done, with its instants."""

    stage: Stage
    begin: datetime
    #: What was submitted: name to (project, milli-GPU).
    work: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: Processes by name, when they were seen, and when they were seen to be gone.
    seen: dict[str, tuple[Process, datetime]] = field(default_factory=dict)
    gone: dict[str, datetime] = field(default_factory=dict)
    changed: datetime | None = None
    workload_ids: dict[str, int] = field(default_factory=dict)

    def look(self) -> Processes:
        """Note who lives and who is gone."""
        before = datetime.now(tz=UTC)
        found = self.stage.scene.processes()
        living = {process.name: process for process in found.found}
        for name, process in living.items():
            self.seen[name] = (process, before)
        for name in self.seen.keys() - living.keys() - self.gone.keys():
            self.gone[name] = datetime.now(tz=UTC)
        return found

    def note(self, name: str, *, project: str, mgpu: int) -> None:
        """Note what was submitted."""
        self.work[name] = (project, mgpu)
        self.workload_ids[name] = self.stage.scene.workloads[name]

    def train(self, name: str, *, project: str) -> None:
        """Submit a training."""
        mgpu = self.stage.layout.training_mgpu
        self.stage.submit_training(name, project=project, mgpu=mgpu)
        self.note(name, project=project, mgpu=mgpu)

    def wait_for(self, *names: str) -> None:
        """Wait until these run."""
        settle(
            self.look,
            until=lambda found: all(found.of(name) for name in names),
            within_s=self.stage.patience_s,
        )


def carry_out(stage: Stage) -> None:
    """Carry the script out, then hold the report against it."""
    script = _Script(stage=stage, begin=datetime.now(tz=UTC))
    _idle_services_and_one_training(script)
    _borrows(script)
    _moves_on_the_socket(script)
    _is_guaranteed_more(script)
    _is_preempted(script)
    end = _ends(script)
    if end is not None:
        _equals_by_hand(script, end)


def _idle_services_and_one_training(script: _Script) -> None:
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


def _borrows(script: _Script) -> None:
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


def _moves_on_the_socket(script: _Script) -> None:
    stage = script.stage
    stage.sheet.when("the report of the running hour is open for some seconds")
    told = stage.browser.listen(
        "/ws/report/",
        _asked(script, script.begin + timedelta(hours=1)),
        messages=3,
        within_s=stage.patience_s,
    )
    exact = [message["exact"] for message in told if message.get("t") == "report"]
    for name in ("deserved", "over_quota", "idle"):
        amounts = [int(one[name]) for one in exact]
        rises = len(amounts) == 3 and amounts[0] < amounts[1] < amounts[2]
        stage.sheet.check(
            expected=say("hours rise from message to message: {figure}", figure=name),
            seen=" < ".join(hours(amount, places=6) for amount in amounts) or "no message",
            where="the WebSocket of the report",
            passed=rises,
        )


def _is_guaranteed_more(script: _Script) -> None:
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


def _is_preempted(script: _Script) -> None:
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


def _ends(script: _Script) -> datetime | None:
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


# --- The report against what is worked out by hand ------------------------------------------------


def _equals_by_hand(script: _Script, end: datetime) -> None:
    accounts = _accounts(script, end)
    by_hand = {name: work_out(one, begin=script.begin, end=end) for name, one in accounts.items()}
    departments = {unit.name: unit.department for unit in units(script.stage.layout)}
    by_department: dict[str, list[dict[str, int]]] = {}
    for name, row in by_hand.items():
        by_department.setdefault(departments[name], []).append(row)
    sums = {name: add(rows) for name, rows in by_department.items()}
    for by, rows in (("project", by_hand), ("department", sums)):
        total = add(list(rows.values()))
        _check_files(script, end, by, rows, total)
        _check_page(script, end, by, rows, total)


def _accounts(script: _Script, end: datetime) -> dict[str, Account]:
    """Return what each project held and was guaranteed: amounts are the script's."""
    stage = script.stage
    found = {unit.name: Account() for unit in units(stage.layout) if unit.department}
    for unit in units(stage.layout):
        if not unit.department:
            continue
        changed = script.changed if unit.name == "unit-a" and script.changed else end
        found[unit.name].guaranteed.append(
            Stretch(begin=script.begin, end=changed, mgpu=unit.quota_mgpu)
        )
        if changed < end:
            found[unit.name].guaranteed.append(
                Stretch(begin=changed, end=end, mgpu=2 * stage.layout.training_mgpu)
            )
    names = {str(number): name for name, number in script.workload_ids.items()}
    for line in _lines(script, end, "intervals"):
        name = names[line["workload_id"]]
        project, mgpu = script.work[name]
        held = Stretch(begin=_at(line["held_from"]), end=_at(line["held_to"]), mgpu=mgpu)
        found[project].held.append(held)
        _check_life(script, name, held)
    for line in _lines(script, end, "activity"):
        project, mgpu = script.work[names[line["workload_id"]]]
        seen = Stretch(begin=_at(line["from"]), end=_at(line["to"]), mgpu=mgpu)
        (found[project].idle if line["what"] == "idle" else found[project].active).append(seen)
    return found


def _check_life(script: _Script, name: str, held: Stretch) -> None:
    """What is held begins before its process and ends after it was last seen alive."""
    process, alive_at = script.seen[name]
    began = datetime.fromtimestamp(process.started_at_s + boot_error_s(), tz=UTC)
    # The kernel tells starts in hundredths of a second.
    around = held.begin - timedelta(seconds=0.02) <= began and alive_at <= held.end
    gone_at = script.gone.get(name)
    told = say(
        "held {since} to {until}, process from {began}, last seen {alive}, gone by {gone}",
        since=_clock(held.begin),
        until=_clock(held.end),
        began=_clock(began),
        alive=_clock(alive_at),
        gone="-" if gone_at is None else _clock(gone_at),
    )
    script.stage.sheet.check(
        expected=say(
            "{name} is held from before its process begins until after its end", name=name
        ),
        seen=told,
        where=say("{place}, and the list behind the figure", place=PROCESS_TABLE),
        passed=around and gone_at is not None,
    )


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S.%f}"


def _check_files(
    script: _Script,
    end: datetime,
    by: str,
    rows: Mapping[str, dict[str, int]],
    total: dict[str, int],
) -> None:
    stage = script.stage
    lines = {line["name"]: line for line in _lines(script, end, "consumption", by=by)}
    asked = _asked(script, end) | {"by": by}
    document = stage.browser.get("/reports/consumption.json", asked).json()
    exact = {row["name"]: row["exact"] for row in document["units"]}
    for name, row in rows.items():
        called = stage.scene.called(name)
        _compare(
            script,
            say("{name}, exact", name=name),
            {figure: str(row[figure]) for figure in FIGURES},
            {figure: str(exact.get(called, {}).get(figure, 0)) for figure in FIGURES},
            say("JSON {path}, in mGPU times microseconds", path="/reports/consumption.json"),
        )
        _compare(
            script,
            name,
            {figure: hours(row[figure], places=3) for figure in FIGURES},
            {
                figure: lines.get(called, {}).get(column, hours(0, places=3))
                for figure, column in IN_CSV.items()
            },
            "CSV /reports/consumption.csv",
        )
    _compare(
        script,
        say("total by {by}, exact", by=by),
        {figure: str(total[figure]) for figure in FIGURES},
        {figure: str(document["total"]["exact"][figure]) for figure in FIGURES},
        say("JSON {path}, in mGPU times microseconds", path="/reports/consumption.json"),
    )


def _check_page(
    script: _Script,
    end: datetime,
    by: str,
    rows: Mapping[str, dict[str, int]],
    total: dict[str, int],
) -> None:
    stage = script.stage
    text = stage.browser.get("/reports", _asked(script, end) | {"by": by}).text
    shown = {
        key: {
            name: f"{html.unescape(cell)} ({closer})" for name, closer, cell in _CELL.findall(inner)
        }
        for key, inner in _ROW.findall(text)
    }
    ids = stage.scene.projects if by == "project" else stage.scene.departments
    keys = {name: next((k for k in shown if k.startswith(f"{ids[name]}-")), "") for name in rows}
    for name, row in (*rows.items(), ("total", total)):
        cells = shown.get("total" if name == "total" else keys[name], {})
        if not cells and not any(row.values()):
            continue  # a unit without any figure has no row
        _compare(
            script,
            name,
            {
                figure: f"{hours(row[figure], places=2)} ({hours(row[figure], places=6)})"
                for figure in FIGURES
            },
            {figure: cells.get(figure, "no cell") for figure in FIGURES},
            say("page {path} by {by}", path="/reports", by=by),
        )


def _compare(
    script: _Script, name: str, wanted: dict[str, str], seen: dict[str, str], where: str
) -> None:
    def told(values: dict[str, str]) -> Said:
        return say(
            "{name}: allocation {allocated}, guarantee {deserved}, over quota {over_quota}, unused "
            "guarantee {unused}, idle {idle}, unknown {unknown}",
            name=name,
            **values,
        )

    script.stage.sheet.check(expected=told(wanted), seen=told(seen), where=where)


def _asked(script: _Script, end: datetime) -> dict[str, str | int]:
    return {
        "period": "custom",
        "from": script.begin.isoformat(),
        "to": end.isoformat(),
        "zone": "UTC",
        "pool": script.stage.scene.pool_id,
    }


def _lines(
    script: _Script, end: datetime, what: str, *, by: str = "project"
) -> list[dict[str, str]]:
    name = what if what == "consumption" else f"consumption.{what}"
    answer = script.stage.browser.get(f"/reports/{name}.csv", _asked(script, end) | {"by": by})
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
