"""What is printed: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

Json = dict[str, Any]
#: Wide enough for any row.
PIPE_WIDTH = 400
Column = tuple[str, Callable[[Json], object]]


def moment(instant: str) -> str:
    """Return an instant of the API in the reader's own time zone, with its offset."""
    return datetime.fromisoformat(instant).astimezone().isoformat(sep=" ", timespec="seconds")


def rows(found: Sequence[Json], columns: Sequence[Column], *, form: str, empty: str) -> None:
    """Print rows as a table, or whole as JSON or YAML."""
    if form != "table":
        value(list(found), form=form)
        return
    if not found:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    last = len(columns) - 1
    for place, (name, _of) in enumerate(columns):
        # What is named stays in one piece, to be copied; the last column takes what is left.
        table.add_column(name, overflow="fold", no_wrap=place < last)
    for row in found:
        table.add_row(*(_text(of(row)) for _name, of in columns))
    _console().print(table)


def _console() -> Console:
    """Return where tables go: as wide as the terminal; in a pipe each row is one line."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def value(found: object, *, form: str) -> None:
    """Print anything as JSON or YAML."""
    if form == "yaml":
        click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True).rstrip())
    else:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else str(cell)
