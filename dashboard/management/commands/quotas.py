"""``manage.py quotas export|import``: the quota tree of all node pools as CSV or YAML."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import ngettext

from dashboard import problems
from scheduler.operations.authority import SYSTEM
from scheduler.operations.quota_import import ImportPlan, apply_import, plan_import
from scheduler.operations.refused import QuotaRefused
from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_files import COLUMNS, FORMATS, cells_of, write_file
from scheduler.queries.quota_tree import read_pool_tree
from scheduler.queries.visibility import WHOLE_CLUSTER


class Command(BaseCommand):
    """Exports to the standard output; an import prints its difference, with --dry-run only that."""

    help = (
        "Write the quota tree as CSV or YAML, or bring such a file into force, whole or not at all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        export = acts.add_parser("export", help="write it")
        export.add_argument("--format", choices=FORMATS, default="csv")
        bring = acts.add_parser("import", help="read it")
        bring.add_argument("file", help="a .csv or .yaml file; - for the standard input")
        bring.add_argument("--format", choices=FORMATS, help="where the name does not say it")
        bring.add_argument("--dry-run", action="store_true", help="only say what would change")
        bring.add_argument("--reason", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "export":
            pools = list_pools(visible=WHOLE_CLUSTER)
            trees = [read_pool_tree(visible=WHOLE_CLUSTER, pool=pool) for pool in pools]
            self.stdout.write(write_file(trees, ending=options["format"]), ending="")
            return
        plan = plan_import(
            _read(options["file"]),
            ending=options["format"] or _ending(options["file"]),
            visible=WHOLE_CLUSTER,
            authority=SYSTEM,
        )
        if plan.mistakes:
            told = "\n".join(f"  {problems.mistake_in_words(each)}" for each in plan.mistakes)
            raise CommandError(f"Nothing was changed.\n{told}")
        self._print(plan)
        if options["dry_run"] or not plan.changed:
            return
        try:
            count = apply_import(
                plan, authority=SYSTEM, now=datetime.now(tz=UTC), reason=options["reason"]
            )
        except QuotaRefused as refused:
            said = " ".join(problems.in_words(each) for each in refused.problems)
            raise CommandError(f"Nothing was changed. {said}") from refused
        saved = ngettext("{n} row is saved.", "{n} rows are saved.", count)
        self.stdout.write(saved.format(n=count))

    def _print(self, plan: ImportPlan) -> None:
        for each in plan.changed:
            before, after = cells_of(each.before.quota), cells_of(each.after.quota)
            for name in COLUMNS:
                if before[name] != after[name]:
                    was, now = before[name] or "none", after[name] or "none"
                    self.stdout.write(
                        f"line {each.line}: {each.pool} / {each.before.name}: {name} {was} -> {now}"
                    )
        for warning in plan.warnings:
            self.stdout.write(f"note: {problems.mistake_in_words(warning)}")
        self.stdout.write(f"{len(plan.changed)} rows differ, {plan.unchanged} do not.")


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} can't be read: {error}") from error


def _ending(name: str) -> str:
    return "yaml" if name.lower().endswith((".yaml", ".yml")) else "csv"
