"""What every command has: the server, the token, and the form in which it prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidegate import shown
from tidegate.client import TIMEOUT_S, Client
from tidegate.config import read

form_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
)


class NoServer(click.ClickException):
    """Nobody has signed in, and nothing names a server."""

    exit_code = 3


class Session:
    """The client of one run of the command, made when it is first needed."""

    def __init__(self, *, url: str = "", language: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._language = language
        self._timeout_s = timeout_s
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Return the client for the server that was named or signed in to."""
        if self._client is None:
            config = read()
            url = self._url or config.url
            if not url:
                raise NoServer("Which server? Sign in first: tidegate login")
            self._client = Client(
                url, config.token, language=self._language, timeout_s=self._timeout_s
            )
        return self._client

    def print(self, found: object, *, form: str) -> None:
        """Print anything as JSON or YAML."""
        shown.value(found, form=form)


def session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the session as its first argument."""
    return click.make_pass_decorator(Session)(command)
