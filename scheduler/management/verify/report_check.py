"""What verification 8 played, with its instants, and the report of it against what is worked out by hand."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.management.verify.by_hand import FIGURES, Account, Stretch, add, hours, work_out
from scheduler.management.verify.readers import Process, Processes, boot_error_s, settle
from scheduler.management.verify.said import Said, say
from scheduler.management.verify.stage import PROCESS_TABLE, Stage
from scheduler.operations.demonstration_data import Unit

#: Columns of the CSV and cells of the page, by figure.
IN_CSV = {
    "allocated": "gpu_allocation_hours",
    "deserved": "gpu_deserved_quota_hours",
    "over_quota": "gpu_over_quota_hours",
    "unused": "gpu_unused_guarantee_hours",
    "idle": "gpu_idle_hours",
    "unknown": "gpu_unknown_hours",
}
#: The page's own document, and the API's.
DOCUMENTS = ("/reports/consumption.json", "/api/v1/reports/consumption")
_ROW = re.compile(r'<tr\sdata-row="([^"]+)">(.*?)</tr>', re.DOTALL)
_CELL = re.compile(r'data-cell="(\w+)"(?: title="([^"]*) h")?[^>]*>([^<]*)<')


@dataclass(slots=True, kw_only=True)
class Script:
    """What was done, with its instants."""

    stage: Stage
    begin: datetime
    #: The projects that it is played with.
    units: Sequence[Unit]
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


def equals_by_hand(script: Script, end: datetime) -> None:
    """Check page, CSV, JSON and API of the script's time, by project and by department."""
    accounts = _accounts(script, end)
    by_hand = {name: work_out(one, begin=script.begin, end=end) for name, one in accounts.items()}
    departments = {unit.name: unit.department for unit in script.units}
    by_department: dict[str, list[dict[str, int]]] = {}
    for name, row in by_hand.items():
        by_department.setdefault(departments[name], []).append(row)
    sums = {name: add(rows) for name, rows in by_department.items()}
    for by, rows in (("project", by_hand), ("department", sums)):
        total = add(list(rows.values()))
        _check_files(script, end, by, rows, total)
        _check_page(script, end, by, rows, total)


def _accounts(script: Script, end: datetime) -> dict[str, Account]:
    """Return what each project held and was guaranteed: amounts are the script's."""
    stage = script.stage
    found = {unit.name: Account() for unit in script.units if unit.department}
    for unit in script.units:
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


def _check_life(script: Script, name: str, held: Stretch) -> None:
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
    script: Script,
    end: datetime,
    by: str,
    rows: Mapping[str, dict[str, int]],
    total: dict[str, int],
) -> None:
    lines = {line["name"]: line for line in _lines(script, end, "consumption", by=by)}
    _compare_hours(script, rows, lines, "CSV /reports/consumption.csv")
    for path in DOCUMENTS:
        answer = script.stage.browser.get(path, asked(script, end) | {"by": by})
        document = answer.json()
        units = {unit["name"]: unit for unit in document["units"]}
        _compare_exact(script, rows, units, path)
        _compare_hours(script, rows, units, say("JSON {path}", path=path))
        _compare(
            script,
            say("total by {by}, exact", by=by),
            {figure: str(total[figure]) for figure in FIGURES},
            {figure: str(document["total"]["exact"][figure]) for figure in FIGURES},
            say("JSON {path}, in mGPU times microseconds", path=path),
        )


def _compare_exact(
    script: Script,
    rows: Mapping[str, dict[str, int]],
    units: Mapping[str, Mapping[str, Any]],
    path: str,
) -> None:
    for name, row in rows.items():
        exact = units.get(script.stage.scene.called(name), {}).get("exact", {})
        _compare(
            script,
            say("{name}, exact", name=name),
            {figure: str(row[figure]) for figure in FIGURES},
            {figure: str(exact.get(figure, 0)) for figure in FIGURES},
            say("JSON {path}, in mGPU times microseconds", path=path),
        )


def _compare_hours(
    script: Script,
    rows: Mapping[str, dict[str, int]],
    told: Mapping[str, Mapping[str, Any]],
    where: Said | str,
) -> None:
    """Hold hours as text, by name of the unit, against those worked out by hand."""
    nothing = hours(0, places=3)
    for name, row in rows.items():
        seen = told.get(script.stage.scene.called(name), {})
        _compare(
            script,
            name,
            {figure: hours(row[figure], places=3) for figure in FIGURES},
            {figure: str(seen.get(column, nothing)) for figure, column in IN_CSV.items()},
            where,
        )


def _check_page(
    script: Script,
    end: datetime,
    by: str,
    rows: Mapping[str, dict[str, int]],
    total: dict[str, int],
) -> None:
    stage = script.stage
    text = stage.browser.get("/reports", asked(script, end) | {"by": by}).text
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
    script: Script,
    name: Said | str,
    wanted: dict[str, str],
    seen: dict[str, str],
    where: Said | str,
) -> None:
    def told(values: dict[str, str]) -> Said:
        return say(
            "{name}: allocation {allocated}, guarantee {deserved}, over quota {over_quota}, unused "
            "guarantee {unused}, idle {idle}, unknown {unknown}",
            name=name,
            **values,
        )

    script.stage.sheet.check(expected=told(wanted), seen=told(seen), where=where)


def asked(script: Script, end: datetime) -> dict[str, str | int]:
    """Return the words of the report from the script's begin to ``end``."""
    return {
        "period": "custom",
        "from": script.begin.isoformat(),
        "to": end.isoformat(),
        "zone": "UTC",
        "pool": script.stage.scene.pool_id,
    }


def _lines(
    script: Script, end: datetime, what: str, *, by: str = "project"
) -> list[dict[str, str]]:
    name = what if what == "consumption" else f"consumption.{what}"
    answer = script.stage.browser.get(f"/reports/{name}.csv", asked(script, end) | {"by": by})
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
