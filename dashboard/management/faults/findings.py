"""What must hold after a fault run, held against the work's own notes, the API and the process table."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dashboard.management.faults import notes
from dashboard.management.faults.killer import processes_of
from dashboard.management.faults.load import Caller, Told
from dashboard.management.own_product import OwnProduct

ENDED = frozenset({"completed", "stopped", "failed"})
SETTLED_WITHIN_S, GONE_WITHIN_S, LOOK_S = 600.0, 90.0, 1.0


@dataclass(slots=True, kw_only=True)
class Findings:
    """What does not hold, by what was looked at. Empty lists are good."""

    double_runs: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    false_states: list[str] = field(default_factory=list)
    ledger: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def by_name(self) -> dict[str, list[str]]:
        return {
            "double runs": self.double_runs,
            "lost": self.lost,
            "in a false state": self.false_states,
            "ledger differences": self.ledger,
            "processes left over": self.left_over,
            "other trouble": self.trouble,
        }


def settle(caller: Caller, told: Told) -> dict[str, dict[str, Any]]:
    """Stop the services and wait until all work has ended; return the list of workloads by name."""
    for service_id in told.services.values():
        caller.call("POST", f"/workloads/{service_id}/stop")
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while True:
        rows = {row["name"]: row for row in caller.items("/workloads")}
        if all(row["phase"] in ENDED for row in rows.values()) or time.monotonic() > deadline:
            return rows
        time.sleep(LOOK_S)


def look(
    *,
    product: OwnProduct,
    folder: Path,
    told: Told,
    rows: dict[str, dict[str, Any]],
    found: Findings,
) -> None:
    """Look at everything after all work has ended, and add what does not hold to ``found``."""
    noted = notes.read_notes(folder)
    found.double_runs += notes.double_runs(noted)
    found.lost += notes.lost_steps(noted)
    found.lost += find_missing(told, rows)
    found.false_states += find_false_states(folder, told, rows, noted)
    found.ledger += _ledger(product)


def wait_until_gone(product: OwnProduct) -> list[str]:
    """Return what still runs of a product that was ended."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := processes_of(product.data.parent):
        if time.monotonic() > deadline:
            return [f"{each.pid} {' '.join(each.cmdline())[:160]}" for each in left]
        time.sleep(LOOK_S)
    return []


def read_log_errors(product: OwnProduct) -> Counter[str]:
    """Count what the product's processes logged as errors, by what they said."""
    found: Counter[str] = Counter()
    for file in sorted((product.data / "logs").glob("*.log*")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith("{"):
                continue
            try:
                told = json.loads(line)
            except ValueError:
                continue  # cut by a kill or a full disk
            if told.get("level", "").upper() in ("ERROR", "CRITICAL"):
                found[f"{file.name}: {told.get('event', told.get('message', '?'))[:110]}"] += 1
    return found


def find_missing(told: Told, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, sent in told.sent.items():
        row = rows.get(name)
        if row is None or row["id"] != sent.id:
            yield f"{name}: accepted as {sent.id}, and not there"
        elif row["phase"] not in ENDED:
            yield f"{name}: still {row['phase']}: {(row['reason'] or {}).get('text', 'no reason')}"
    for name in sorted(set(rows) - set(told.sent) - set(told.services) - told.unanswered):
        yield f"{name}: there, and nobody was told that it was accepted"


def find_false_states(
    folder: Path,
    told: Told,
    rows: dict[str, dict[str, Any]],
    noted: dict[str, list[notes.Note]],
) -> Iterator[str]:
    for name, sent in told.sent.items():
        phase = rows[name]["phase"] if name in rows else ""
        works = [f"{name}.{rank}" for rank in range(sent.ranks)]
        done = [any(note.what == "done" for note in noted.get(work, ())) for work in works]
        if phase == "completed" and not all(done):
            yield f"{name}: completed, but its notes do not say so"
        if phase == "failed":
            yield f"{name}: failed, and it never fails by itself"
        if phase == "stopped" and not sent.stopped:
            yield f"{name}: stopped, and nobody asked for it"
        for work in works:
            if phase in ENDED and notes.is_running(folder, work):
                yield f"{work}: {phase}, and it runs"


def _ledger(product: OwnProduct) -> Iterator[str]:
    done = product.manage("ledger", "verify")
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        yield from [line for line in lines if line and not line.startswith("ok")]
