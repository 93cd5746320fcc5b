"""What is printed: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

Json = dict[str, Any]
Column = tuple[str, Callable[[Json], object]]


def rows(found: Sequence[Json], columns: Sequence[Column], *, form: str, empty: str) -> None:
    """Print rows as a table, or whole as JSON or YAML."""
    if form != "table":
        value(list(found), form=form)
        return
    if not found:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, _of in columns:
        table.add_column(name, overflow="fold")
    for row in found:
        table.add_row(*(_text(of(row)) for _name, of in columns))
    Console().print(table)


def value(found: object, *, form: str) -> None:
    """Print anything as JSON or YAML."""
    if form == "yaml":
        click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True).rstrip())
    else:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else str(cell)
