"""The help of every command as text, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tidegate.main import cli

WIDTH = 100


def all_help() -> Iterator[tuple[str, str]]:
    """Give every command's name and help, subcommands included, in the order of the help itself."""
    yield from _help_of(cli, "tidegate", None)


def _help_of(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from _help_of(found, each, context)
