"""Commands about quotas: show, set with a preview, export, import."""

from __future__ import annotations

from typing import Any

import click

from tidegate import completing, shown
from tidegate.amounts import parse_gpu, show_gpu
from tidegate.client import ApiError, Problem
from tidegate.session import Session, form_option, session

Json = dict[str, Any]
RANKS = {1: "low", 2: "medium low", 3: "medium", 4: "medium high", 5: "high"}


@click.group()
def quotas() -> None:
    """Guarantees and limits."""


@quotas.command()
@click.option("--pool", default="", shell_complete=completing.pools)
@form_option
@session
def show(own: Session, pool: str, form: str) -> None:
    """Show the tree of a pool."""
    tree = own.client.call("GET", "/quotas", query={"pool": pool})
    if form != "table":
        own.print(tree, form=form)
        return
    shown.rows(
        tree["rows"],
        [
            ("UNIT", lambda row: ("  " if row["level"] == "project" else "") + row["name"]),
            ("GUARANTEE", lambda row: show_gpu(row["quota_mgpu"]) if row["known"] else "-"),
            (
                "LIMIT",
                lambda row: "none" if row["limit_mgpu"] is None else show_gpu(row["limit_mgpu"]),
            ),
            ("HELD", lambda row: show_gpu(row["held_mgpu"])),
            ("MAY BORROW", lambda row: "yes" if row["over_quota"] else "no"),
            ("RANK", lambda row: RANKS.get(row["rank"], row["rank"])),
            ("WEIGHT", lambda row: f"{row['weight_milli'] / 1000:g}"),
        ],
        form=form,
        empty="There is no department yet.",
    )


@quotas.command("set")
@click.argument("unit", shell_complete=completing.units)
@click.option("--quota", default="", help="The guarantee in GPUs.")
@click.option("--limit", default="", help="In GPUs, or none.")
@click.option("--may-borrow/--may-not-borrow", "over_quota", default=None)
@click.option("--reason", default="", help="Kept with the change.")
@click.option("--pool", default="", shell_complete=completing.pools)
@click.option("--preview", is_flag=True, help="Only say what it would do.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask where work would be interrupted.")
@session
def set_quota(own: Session, unit: str, **given: Any) -> None:
    """Change the quota of UNIT, a department's or project's name.

    What the scheduler would do is shown first, and asked about where it interrupts work.
    """
    tree = own.client.call("GET", "/quotas", query={"pool": given["pool"]})
    found = [row for row in tree["rows"] if row["name"] == unit]
    if len(found) != 1:
        known = ", ".join(row["name"] for row in tree["rows"])
        raise click.BadParameter(f"No one unit {unit!r}. Known are: {known}.", param_hint="UNIT")
    row: Json = {"level": found[0]["level"], "id": found[0]["id"]}
    if given["quota"]:
        row["quota_mgpu"] = parse_gpu(given["quota"])
    if given["limit"]:
        row["limit_mgpu"] = -1 if given["limit"] == "none" else parse_gpu(given["limit"])
    if given["over_quota"] is not None:
        row["over_quota"] = given["over_quota"]
    if len(row) == 2:
        raise click.UsageError("Say what to change: --quota, --limit or --may-borrow.")
    draft = {"pool": given["pool"], "rows": [row], "reason": given["reason"]}
    interrupts = _tell_preview(own, draft)
    if given["preview"]:
        return
    if interrupts and not given["yes"]:
        click.confirm("Save it?", abort=True)
    own.client.call("PUT", "/quotas", body=draft, headers={"If-Match": tree["etag"]})
    click.echo(f"The quota of {unit} is changed.")


FORMATS = ("csv", "yaml")


@quotas.command("export")
@click.option("--format", "form", type=click.Choice(FORMATS), default="csv", show_default=True)
@session
def export(own: Session, form: str) -> None:
    """Print the tree of all pools as a file, to be edited and imported."""
    for piece in own.client.text("/quotas/file", query={"format": form}):
        click.echo(piece.removeprefix("\ufeff").replace("\r\n", "\n"), nl=False)


@quotas.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@click.option("--format", "form", type=click.Choice(FORMATS), help="Where the name does not say.")
@click.option("--reason", default="", help="Kept with the change.")
@click.option("--make", "make_units", is_flag=True, help="Make departments and projects too.")
@click.option("--preview", is_flag=True, help="Only say what it would do.")
@click.option("-y", "--yes", is_flag=True)
@session
def import_(own: Session, file: Any, *, form: str | None, yes: bool, **given: Any) -> None:
    """Set quotas from a file as export prints it: all rows that differ, or none."""
    name = str(file.name).lower()
    bring_in(
        own,
        {
            "format": form or ("yaml" if name.endswith((".yaml", ".yml")) else "csv"),
            "text": file.read(),
            "make_units": given["make_units"],
        },
        reason=given["reason"],
        preview=given["preview"],
        yes=yes,
    )


def bring_in(own: Session, sent: Json, *, reason: str, preview: bool, yes: bool) -> None:
    """Print what a quota file would do; carry it out where that is wanted.

    Raises:
        ApiError: the file has mistakes, each with its line; nothing is done.
    """
    plan = own.client.call("POST", "/quotas/file/preview", body=sent)
    if plan["mistakes"]:
        told = [Problem(f"line {e['line']}", e["code"], e["message"]) for e in plan["mistakes"]]
        raise ApiError(422, "refused", "Nothing is changed.", told)
    for unit in plan["made"]:
        click.echo(f"makes the {unit['level']} {unit['name']}")
    for row in plan["changed"]:
        for cell in row["cells"]:
            was, becomes = cell["before"] or "none", cell["after"] or "none"
            click.echo(f"{row['pool']} / {row['name']}: {cell['field']} {was} -> {becomes}")
    for warning in plan["warnings"]:
        click.echo(f"warning: {warning['message']}")
    if not plan["changed"] and not plan["made"]:
        click.echo("Nothing differs.")
        return
    if preview:
        return
    if not yes:
        click.confirm("Save it?", abort=True)
    own.client.call("PUT", "/quotas/file", body={**sent, "seen": plan["seen"], "reason": reason})
    click.echo(f"{len(plan['changed'])} rows are changed.")


def _tell_preview(own: Session, draft: Json) -> bool:
    """Print what the scheduler would do; return whether work would be interrupted."""
    found = own.client.call("POST", "/quotas/preview", body=draft)
    for warning in found["warnings"]:
        click.echo(f"warning: {warning}")
    for loss in found["interrupts"]:
        work = loss["workload"]
        lost = "saved" if loss["has_checkpoint"] else "nothing saved"
        click.echo(f"interrupts {work['project']}/{work['name']} by {loss['rule']} ({lost})")
    for name, said in (("starts", "starts"), ("never", "could never run:")):
        for work in found[name]:
            click.echo(f"{said} {work['project']}/{work['name']}")
    if found["touches_others"]:
        click.echo("touches work outside of your scopes")
    return bool(found["interrupts"] or found["touches_others"])
