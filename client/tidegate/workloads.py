"""Commands about workloads: submit, list, describe, logs, stop, start, delete."""

from __future__ import annotations

import time
from typing import Any

import click

from tidegate import completing, shown
from tidegate.amounts import parse_gpu, replica_request, show_gpu
from tidegate.client import Client
from tidegate.session import Session, form_option, session

KINDS = ("training", "distributed", "workspace", "inference")
PHASES = (
    "pending", "starting", "running", "degraded", "stopping", "stopped", "completed", "failed",
)  # fmt: skip
METRICS = ("concurrency", "throughput", "latency", "custom")
ENDED = frozenset({"stopped", "completed", "failed"})
FOLLOW_S = 1.0
Json = dict[str, Any]


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-p", "--project", required=True, help="Name or id.", shell_complete=completing.projects
)
@click.option("-n", "--name", required=True)
@click.option("--kind", type=click.Choice(KINDS), default="training", show_default=True)
@click.option(
    "-g", "--gpu", default="", help="A replica's GPUs: 0.25 is a share, 2 are whole ones."
)
@click.option("--gpu-memory-mib", type=int, help="Or the GPU memory a replica asks for.")
@click.option("--replicas", default="", help="How many: 4, or 1-3 for a service.")
@click.option("--metric", type=click.Choice(METRICS), help="Of a service: what replicas follow.")
@click.option("--threshold", type=int, help="Of the metric: a further replica above it.")
@click.option("--priority", type=int, help="1 to 1000; left out: as usual for its kind.")
@click.option("--preemptible/--not-preemptible", default=None, help="Left out: by priority.")
@click.option("--cpu-milli", type=int, default=0, help="Thousandths of a core a replica.")
@click.option("--memory-mib", type=int, default=0)
@click.option("--grace-s", type=int, default=30, show_default=True, help="To save after SIGTERM.")
@click.option("--env", multiple=True, metavar="NAME=VALUE")
@click.option(
    "--pool", default="", help="Left out: the first pool.", shell_complete=completing.pools
)
@click.option("--preview", is_flag=True, help="Only say what would become of it.")
@click.option("--key", default="", help="Submitted twice with one key, it is there once.")
@form_option
@click.argument("command", nargs=-1, required=True)
@session
def submit(own: Session, *, form: str, preview: bool, key: str, **given: Any) -> None:
    """Submit COMMAND as a workload; write -- before it."""
    submission = _submission(own.client, given)
    if preview:
        _tell_preview(own, submission, form=form)
        return
    made = own.client.submit(submission, key=key)
    if form != "table":
        own.print(made, form=form)
        return
    click.echo(f"{made['project']}/{made['name']} is submitted (id {made['id']}).")


@click.command("list")
@click.option("-p", "--project", default="", help="Name or id.", shell_complete=completing.projects)
@click.option("--phase", type=click.Choice(PHASES))
@click.option("--kind", type=click.Choice(KINDS))
@click.option("-q", "--search", default="", help="Part of a name.")
@click.option("--sort", default="-id", show_default=True, help="Such as name or -priority.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@form_option
@session
def list_workloads(own: Session, *, form: str, project: str, search: str, **given: Any) -> None:
    """List workloads, the newest first."""
    project_id = own.client.find_project(project)["id"] if project else None
    page = own.client.call(
        "GET", "/workloads", query={**given, "q": search, "project_id": project_id}
    )
    shown.rows(
        page["items"],
        [
            ("ID", lambda row: row["id"]),
            ("WORKLOAD", lambda row: f"{row['project']}/{row['name']}"),
            ("KIND", lambda row: row["kind"]),
            ("PHASE", lambda row: row["phase"]),
            ("ASKS", lambda row: show_gpu(row["asked_mgpu"])),
            ("HOLDS", lambda row: show_gpu(row["held_mgpu"])),
            ("WHERE OR WHY", lambda row: row["place"] or (row["reason"] or {}).get("why", "")),
        ],
        form=form,
        empty="There is no such workload.",
    )
    if form == "table" and page["next"]:
        click.echo(f"{page['total']} in all; --limit shows more.")


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@form_option
@session
def describe(own: Session, workload: str, form: str) -> None:
    """Say all about WORKLOAD (id, name or project/name): why it waits, what would make it run."""
    found = own.client.find_workload(workload)
    told: Json = {"would_run": [], "estimate": None}
    if found["phase"] == "pending":
        told = own.client.call("GET", f"/workloads/{found['id']}/explanation")
    if form != "table":
        more = {name: told[name] for name in ("would_run", "estimate")}
        own.print({**found, **more}, form=form)
        return
    click.echo(f"{found['project']}/{found['name']} ({found['kind']}, id {found['id']})")
    click.echo(f"  phase       {found['phase']} since {shown.moment(found['since'])}")
    click.echo(f"  asks for    {show_gpu(found['asked_mgpu'])} GPU, priority {found['priority']}")
    click.echo(f"  holds       {show_gpu(found['held_mgpu'])} GPU {found['place']}".rstrip())
    if found["reason"]:
        click.echo(f"  waits       {found['reason']['why']} {found['reason']['runs_when']}")
    if told["estimate"] is not None:
        _say_turn(told["estimate"])
    for way in told["would_run"]:
        count = "other work" if way["interrupts"] is None else way["interrupts"]
        others = f" (interrupts {count})" if way["interrupts_others"] else ""
        click.echo(f"  would run   {way['text']}{others}")
    if found["failure"]:
        click.echo(f"  failure     {found['failure']}")
    for line in found["timeline"][:20]:
        click.echo(f"  {shown.moment(line['at'])}  {line['text']}")


def _say_turn(estimate: Json) -> None:
    """Say where it stands in its project's line, and when it may start where that can be told."""
    click.echo(
        f"  turn        number {estimate['position']} of {estimate['waiting']} in its project"
    )
    if estimate["soonest"]:
        soonest, latest = shown.moment(estimate["soonest"]), shown.moment(estimate["latest"])
        click.echo(f"  may start   {soonest} to {latest}")


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option("--replica", type=int, default=0, show_default=True)
@session
def logs(own: Session, workload: str, *, follow: bool, replica: int) -> None:
    """Print what WORKLOAD printed; the last lines of it, and with -f what comes."""
    found = own.client.find_workload(workload)
    piece = own.client.log(found["id"], replica=replica)
    click.echo(piece["text"], nl=False)
    while follow and not (piece["ended"] and piece["next_offset"] >= piece["size_bytes"]):
        time.sleep(FOLLOW_S)
        piece = own.client.log(found["id"], replica=replica, offset=piece["next_offset"])
        click.echo(piece["text"], nl=False)


def _act(own: Session, workload: str, act: str, said: str) -> None:
    found = own.client.find_workload(workload)
    own.client.call("POST", f"/workloads/{found['id']}/{act}")
    click.echo(f"{found['project']}/{found['name']} {said}")


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@session
def stop(own: Session, workload: str) -> None:
    """Stop WORKLOAD: SIGTERM, its grace, SIGKILL."""
    _act(own, workload, "stop", "is being stopped.")


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@session
def start(own: Session, workload: str) -> None:
    """Let an ended WORKLOAD wait for its turn again."""
    _act(own, workload, "start", "waits again.")


@click.command()
@click.argument("workload", shell_complete=completing.workloads)
@click.confirmation_option(prompt="Delete it? A running one is stopped first.")
@session
def delete(own: Session, workload: str) -> None:
    """Delete WORKLOAD. Its hours stay in the ledger."""
    found = own.client.find_workload(workload)
    own.client.call("DELETE", f"/workloads/{found['id']}")
    click.echo(f"{found['project']}/{found['name']} is deleted.")


def _submission(client: Client, given: Json) -> Json:
    """Return what the options mean as the API takes it."""
    submission: Json = {
        "name": given["name"],
        "project_id": client.find_project(given["project"])["id"],
        "pool": given["pool"],
        "kind": given["kind"],
        "command": list(given["command"]),
        "cpu_milli": given["cpu_milli"],
        "memory_mib": given["memory_mib"],
        "grace_s": given["grace_s"],
        "env": _env(given["env"]),
    }
    for name in ("priority", "preemptible", "gpu_memory_mib"):
        if given[name] is not None:
            submission[name] = given[name]
    if given["gpu"]:
        submission |= replica_request(parse_gpu(given["gpu"]))
    scaling = {name: given[name] for name in ("metric", "threshold") if given[name] is not None}
    if scaling:
        submission["scaling"] = scaling
    low, _, high = given["replicas"].partition("-")
    if low:
        if not low.isdigit() or (high and not high.isdigit()):
            raise click.BadParameter("Write 4, or 1-3.", param_hint="--replicas")
        submission |= {"min_replicas": int(low), "max_replicas": int(high or low)}
    return submission


def _env(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise click.BadParameter(f"{pair!r}: write NAME=VALUE.", param_hint="--env")
        found[name] = value
    return found


SAID = {
    "starts": "It would start now, within the guarantee",
    "borrows": "It would start now, on borrowed GPUs",
    "takes": "It would start after others give way",
    "waits": "It would wait",
    "never": "It could never run",
}


def _tell_preview(own: Session, submission: Json, *, form: str) -> None:
    found = own.client.preview(submission)
    if form != "table":
        own.print(found, form=form)
        return
    place = f" ({found['place']})" if found["place"] else ""
    click.echo(f"{SAID[found['outcome']]}{place}.")
    if found["borrowed_mgpu"]:
        click.echo(f"  borrowed    {show_gpu(found['borrowed_mgpu'])} GPU")
    for loss in found["interrupts"]:
        work = loss["workload"]
        lost = "saved" if loss["has_checkpoint"] else "nothing saved"
        click.echo(f"  interrupts  {work['project']}/{work['name']} by {loss['rule']} ({lost})")
    if found["interrupts_others"]:
        click.echo("  interrupts  work of others")
    if found["reason"]:
        click.echo(f"  why         {found['reason']['why']} {found['reason']['runs_when']}")
    for warning in found["warnings"]:
        click.echo(f"  warning     {warning}")
