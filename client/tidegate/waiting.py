"""The command ``wait``: until a workload runs, has saved, waits, or has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

from tidegate import completing
from tidegate.session import Session, session

Json = dict[str, Any]
LOOK_S = 0.5
ENDED = frozenset({"stopped", "completed", "failed"})
GOALS: dict[str, Callable[[Json], bool]] = {
    "running": lambda found: found["phase"] == "running",
    "pending": lambda found: found["phase"] == "pending",
    "ended": lambda found: found["phase"] in ENDED,
    "saved": lambda found: _has(found, "first_checkpoint"),
    "resumed": lambda found: (
        found["phase"] == "running" and _has(found, "resumed_equal", "resumed_with_loss")
    ),
}


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@click.option("--for", "goal", type=click.Choice(sorted(GOALS)), default="ended", show_default=True)
@click.option("--within", type=float, default=0, help="Seconds; left out: as long as it takes.")
@session
def wait(own: Session, workload: str, *, goal: str, within: float) -> int:
    """Wait until WORKLOAD is running, pending or ended, or has saved or resumed.

    Ends with 1 where it has ended some other way, or not within the time.
    """
    found = own.client.find_workload(workload)
    name = f"{found['project']}/{found['name']}"
    deadline = time.monotonic() + within if within else float("inf")
    with Console(stderr=True).status(f"{name} is {found['phase']}") as status:
        while not GOALS[goal](found):
            if found["phase"] in ENDED or time.monotonic() > deadline:
                click.echo(f"{name} is {found['phase']}. {_why(found)}".rstrip(), err=True)
                return 1
            time.sleep(LOOK_S)
            found = own.client.call_patiently("GET", f"/workloads/{found['id']}")
            status.update(f"{name} is {found['phase']}. {_why(found)}".rstrip())
    click.echo(f"{name} is {found['phase']}.")
    return 0


def _has(found: Json, *codes: str) -> bool:
    return any(line["code"] in codes for line in found["timeline"])


def _why(found: Json) -> str:
    reason = found["reason"]
    return f"{reason['why']} {reason['runs_when']}" if reason else str(found["failure"] or "")
