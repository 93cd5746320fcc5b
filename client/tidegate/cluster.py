"""Commands about the cluster: the live view, nodes, services, models, the consumption report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate import completing, shown
from tidegate.amounts import show_gpu
from tidegate.session import Session, form_option, session

Json = dict[str, Any]
BAR = 20
#: What the report's table shows of each unit, in GPU hours but for the cost.
FIGURES = (
    ("ALLOCATED", "gpu_allocation_hours"),
    ("DESERVED", "gpu_deserved_quota_hours"),
    ("OVER QUOTA", "gpu_over_quota_hours"),
    ("IDLE", "gpu_idle_hours"),
    ("COST", "cost"),
)


@click.command()
@click.option(
    "--pool", default="", help="Left out: the first pool.", shell_complete=completing.pools
)
@click.option("--once", is_flag=True, help="Print it once and end.")
@click.option("--every", type=click.FloatRange(0.5, 60), default=2.0, show_default=True)
@session
def top(own: Session, *, pool: str, once: bool, every: float) -> None:
    """Show the map: each GPU, what is on it, and what waits. Ctrl-C ends it."""

    def look() -> Group:
        return _picture(own.client.call_patiently("GET", "/cluster/overview", query={"pool": pool}))

    if once:
        Console().print(look())
        return
    with Live(look(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every)
                live.update(look(), refresh=True)
        except KeyboardInterrupt:
            return


@click.command()
@click.option("--pool", default="", shell_complete=completing.pools)
@form_option
@session
def nodes(own: Session, pool: str, form: str) -> None:
    """List nodes."""
    shown.rows(
        list(own.client.items("/nodes", pool=pool)),
        [
            ("NODE", lambda row: row["name"]),
            ("GPUS", lambda row: row["devices"]),
            ("MODEL", lambda row: row["gpu_model"] + (" (virtual)" if row["virtual"] else "")),
            ("HELD", lambda row: show_gpu(row["held_mgpu"])),
            ("FREE", lambda row: show_gpu(row["free_mgpu"])),
            ("STATE", _node_state),
        ],
        form=form,
        empty="There is no node yet.",
    )


@click.command()
@form_option
@session
def services(own: Session, form: str) -> None:
    """List inference services."""
    shown.rows(
        list(own.client.items("/services")),
        [
            ("ID", lambda row: row["id"]),
            ("SERVICE", lambda row: f"{row['project']}/{row['name']}"),
            ("PHASE", lambda row: row["phase"]),
            ("REPLICAS", lambda row: row["replicas"]),
            ("IN FLIGHT", lambda row: row["in_flight"]),
            ("WAITING", lambda row: row["waiting"]),
            ("MODELS", lambda row: ", ".join(row["models"])),
        ],
        form=form,
        empty="There is no service.",
    )


@click.command()
@form_option
@session
def models(own: Session, form: str) -> None:
    """List the names of models that services answer to."""
    found = [
        {"model": name, "service": f"{row['project']}/{row['name']}", "replicas": row["replicas"]}
        for row in own.client.items("/services")
        for name in row["models"]
    ]
    shown.rows(
        found,
        [
            ("MODEL", lambda row: row["model"]),
            ("SERVICE", lambda row: row["service"]),
            ("REPLICAS", lambda row: row["replicas"]),
        ],
        form=form,
        empty="There is no model.",
    )


@click.command()
@click.option("--period", help="today, yesterday, 7d, 30d, last_week, month, last_month.")
@click.option("--from", "from_", default="", help="A date or an instant, with --to.")
@click.option("--to", default="")
@click.option("--zone", default="UTC", show_default=True)
@click.option("--by", default="project", show_default=True, help="department, project, user, ...")
@click.option("--step", default="whole", show_default=True, help="hour, day, week, month or whole.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--intervals", is_flag=True, help="With --csv: each interval of holding.")
@form_option
@session
def report(own: Session, *, as_csv: bool, intervals: bool, form: str, **given: Any) -> None:
    """Print the consumption report."""
    query = {"from" if name == "from_" else name: value for name, value in given.items() if value}
    if as_csv:
        path = "/reports/intervals.csv" if intervals else "/reports/consumption.csv"
        for piece in own.client.text(path, query=query):
            click.echo(piece, nl=False)
        return
    found = own.client.call("GET", "/reports/consumption", query=query)
    if form != "table":
        own.print(found, form=form)
        return
    shown.rows(
        [*found["units"], {**found["total"], "name": "total"}],
        [("UNIT", lambda row: row["name"]), *((head, _cell(name)) for head, name in FIGURES)],
        form=form,
        empty="Nothing was held.",
    )


def _cell(name: str) -> Callable[[Json], object]:
    return lambda row: row[name]


def _node_state(row: Json) -> str:
    for name in ("lost", "draining", "cordoned"):
        if row[name]:
            return name
    return "ready"


def _picture(found: Json) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "GPU", "HELD", "", "WORK"):
        table.add_column(name)
    for device in found["devices"]:
        held = sum(each["mgpu"] for each in device["held"]) + device["others_mgpu"]
        names = [f"{each['workload']} {show_gpu(each['mgpu'])}" for each in device["held"]]
        if device["others_mgpu"]:
            names.append(f"others {show_gpu(device['others_mgpu'])}")
        full = round(BAR * min(1000, held) / 1000)
        bar = Text("█" * full, style="blue") + Text("░" * (BAR - full), style="dim")
        table.add_row(
            device["node"], str(device["index"]), show_gpu(held), bar, ", ".join(names) or "free"
        )
    waiting = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("WAITS", "ASKS", "WHY"):
        waiting.add_column(name)
    for row in found["waiting"][:20]:
        waiting.add_row(
            f"{row['project']}/{row['name']}",
            show_gpu(row["asked_mgpu"]),
            f"{row['reason']['why']} {row['reason']['runs_when']}",
        )
    parts: list[Any] = [Text(found["sentence"]), Text(""), table]
    if found["waiting"]:
        parts += [Text(""), waiting]
    return Group(*parts)
