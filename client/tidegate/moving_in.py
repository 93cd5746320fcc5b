"""``tidegate import``: batch scripts and YAML of other systems, told field by field before they are sent."""

from __future__ import annotations

from typing import Any

import click

from tidegate import quotas
from tidegate.moving import hierarchy
from tidegate.moving.found import Found
from tidegate.moving.reading import read
from tidegate.session import Session, form_option, session
from tidegate.workloads import SAID

Json = dict[str, Any]


@click.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@click.option("-p", "--project", default="", help="Instead of the queue or account of the file.")
@click.option("--pool", default="", help="Instead of the partition or node pool of the file.")
@click.option("--reason", default="", help="Kept with a change of quotas.")
@click.option(
    "--preview", is_flag=True, help="Only say what each field becomes, and what it would do."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@form_option
@session
def import_file(
    own: Session, file: Any, *, form: str, preview: bool, yes: bool, **given: Any
) -> None:
    """Carry FILE over: a Slurm batch script, Kubernetes, KAI or Run:ai work, or queues and projects.

    All of the file is submitted or saved, or nothing of it.
    """
    found = read(file.read())
    if found.units:
        _units(own, found, given, form=form, preview=preview, yes=yes)
        return
    sent = [_placed(own, each, found, given) for each in found.submissions]
    tried = [own.client.preview(each) for each in sent]
    if form != "table":
        own.print({**found.as_json(), "previews": tried} if preview else found.as_json(), form=form)
    else:
        _tell(found)
        for each, would in zip(sent, tried, strict=True):
            click.echo(f"{each['name']}: {SAID[would['outcome']].lower()}.")
    if preview:
        return
    if not yes:
        click.confirm(f"Submit {len(sent)} of {len(sent)}?", abort=True, err=True)
    made = own.client.submit_all(sent)
    for each in made if form == "table" else ():
        click.echo(f"{each['project']}/{each['name']} is submitted (id {each['id']}).")


def _units(own: Session, found: Found, given: Json, *, form: str, preview: bool, yes: bool) -> None:
    pools = [each["name"] for each in own.client.call("GET", "/cluster/pools")]
    if not given["pool"] and not pools:
        raise click.UsageError("There is no node pool yet: an admin registers one first.")
    text = hierarchy.quota_file(found, pool=given["pool"] or pools[0])
    if form != "table":
        own.print(found.as_json(), form=form)
    else:
        _tell(found)
    sent = {"format": "yaml", "text": text, "make_units": True}
    quotas.bring_in(own, sent, reason=given["reason"], preview=preview, yes=yes)


def _placed(own: Session, submission: Json, found: Found, given: Json) -> Json:
    """Return a submission with the project's id and a pool that is there."""
    placed = {name: value for name, value in submission.items() if name not in ("project", "pool")}
    project = given["project"] or submission.get("project", "")
    if not project:
        raise click.UsageError(
            f"{submission['name']}: the file names no project. Say which: -p NAME"
        )
    placed["project_id"] = own.client.find_project(project)["id"]
    if given["pool"]:
        return {**placed, "pool": given["pool"]}
    wanted = submission.get("pool", "")
    pools = [each["name"] for each in own.client.call("GET", "/cluster/pools")]
    if wanted and wanted not in pools:
        found.leave("pool", wanted, "There is no node pool of this name; --pool names one.")
    return {**placed, "pool": wanted} if wanted in pools else placed


def _tell(found: Found) -> None:
    """Print what each field becomes, and what is left out."""
    click.echo(f"{found.system}: {len(found.submissions) or len(found.units)} found.")
    for note in found.carried:
        click.echo(f"  {note.field} {note.value} -> {note.becomes}")
    if found.left_out:
        click.echo("Left out:")
    for note in found.left_out:
        click.echo(f"  {note.field} {note.value}: {note.why}")
