"""Commands about quotas: show, set with a preview, export, import."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from tidegate import shown
from tidegate.amounts import parse_gpu, show_gpu
from tidegate.session import Session, form_option, session

Json = dict[str, Any]


@click.group()
def quotas() -> None:
    """Guarantees and limits."""


@quotas.command()
@click.option("--pool", default="")
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
            ("RANK", lambda row: row["rank"]),
            ("WEIGHT", lambda row: row["weight_milli"] / 1000),
        ],
        form=form,
        empty="There is no department yet.",
    )


@quotas.command("set")
@click.argument("unit")
@click.option("--quota", default="", help="The guarantee in GPUs.")
@click.option("--limit", default="", help="In GPUs, or none.")
@click.option("--may-borrow/--may-not-borrow", "over_quota", default=None)
@click.option("--reason", default="", help="Kept with the change.")
@click.option("--pool", default="")
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


COLUMNS = ("level", "name", "quota_gpu", "limit_gpu", "over_quota", "rank", "weight_milli")


@quotas.command("export")
@click.option("--pool", default="")
@session
def export(own: Session, pool: str) -> None:
    """Print the tree as CSV, to be edited and imported."""
    tree = own.client.call("GET", "/quotas", query={"pool": pool})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in tree["rows"]:
        if row["known"]:
            limit = "none" if row["limit_mgpu"] is None else show_gpu(row["limit_mgpu"])
            writer.writerow(
                [
                    row["level"], row["name"], show_gpu(row["quota_mgpu"]), limit,
                    "yes" if row["over_quota"] else "no", row["rank"], row["weight_milli"],
                ]
            )  # fmt: skip
    click.echo(out.getvalue(), nl=False)


@quotas.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@click.option("--reason", default="", help="Kept with the change.")
@click.option("--pool", default="")
@click.option("--preview", is_flag=True, help="Only say what it would do.")
@click.option("-y", "--yes", is_flag=True)
@session
def import_(own: Session, file: Any, **given: Any) -> None:
    """Set quotas from a CSV as export prints it: all rows that differ, or none."""
    tree = own.client.call("GET", "/quotas", query={"pool": given["pool"]})
    rows = _changed_rows(file, tree)
    if not rows:
        click.echo("Nothing differs.")
        return
    draft = {"pool": given["pool"], "rows": rows, "reason": given["reason"]}
    interrupts = _tell_preview(own, draft)
    if given["preview"]:
        return
    if interrupts and not given["yes"]:
        click.confirm("Save it?", abort=True)
    own.client.call("PUT", "/quotas", body=draft, headers={"If-Match": tree["etag"]})
    click.echo(f"{len(rows)} rows are changed.")


def _changed_rows(file: Any, tree: Json) -> list[Json]:
    by_name = {(row["level"], row["name"]): row for row in tree["rows"]}
    reader = csv.DictReader(file)
    missing = set(COLUMNS) - set(reader.fieldnames or ())
    if missing:
        raise click.UsageError(f"The file lacks the columns {', '.join(sorted(missing))}.")
    changed = []
    for line in reader:
        now = by_name.get((line["level"], line["name"]))
        if now is None:
            raise click.UsageError(
                f"Line {reader.line_num}: there is no {line['level']} {line['name']!r}."
            )
        wanted = _wanted(line, reader.line_num)
        differs = {
            name: value
            for name, value in wanted.items()
            if value != (-1 if now[name] is None else now[name])
        }
        if differs:
            changed.append({"level": now["level"], "id": now["id"], **differs})
    return changed


def _wanted(line: dict[str, str], number: int) -> Json:
    try:
        limit = line["limit_gpu"].strip()
        return {
            "quota_mgpu": parse_gpu(line["quota_gpu"]),
            "limit_mgpu": -1 if limit in ("", "none") else parse_gpu(limit),
            "over_quota": {"yes": True, "no": False}[line["over_quota"].strip().lower()],
            "rank": int(line["rank"]),
            "weight_milli": int(line["weight_milli"]),
        }
    except (ValueError, KeyError) as error:
        raise click.UsageError(
            f"Line {number}: {error}. Amounts are numbers such as 0.25, over_quota is yes or no."
        ) from error


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
