"""What the shell offers while a command is typed: names of units, workloads and pools that one may see.

A shell has no place for an error: where the server can't be asked, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import click

from tidegate.client import ApiError, Client, Unreachable
from tidegate.session import NoServer, Session

#: A shell that hangs is worse than one that offers nothing.
TIMEOUT_S = 3.0
MOST = 100
Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def _offer(names: Callable[[Client, str], Iterator[str]]) -> Offer:
    """Return what a parameter asks while its value is typed."""

    def offer(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        url = str(context.find_root().params.get("url") or "")
        with suppress(ApiError, Unreachable, NoServer, ValueError):
            client = Session(url=url, timeout_s=TIMEOUT_S).client
            found = (name for name in names(client, begun) if name.startswith(begun))
            return sorted({name for name, _ in zip(found, range(MOST), strict=False)})
        return []

    return offer


def _projects(client: Client, _begun: str) -> Iterator[str]:
    return (str(each["name"]) for each in client.items("/projects"))


def _workloads(client: Client, begun: str) -> Iterator[str]:
    """Yield names alone until a project is typed, then names in it."""
    project, sign, name = begun.rpartition("/")
    page = client.call("GET", "/workloads", query={"q": name or None, "limit": 500})
    for each in page["items"]:
        if not sign:
            yield str(each["name"])
        elif each["project"] == project:
            yield f"{project}/{each['name']}"


def _units(client: Client, _begun: str) -> Iterator[str]:
    return (str(each["name"]) for each in client.call("GET", "/quotas")["rows"])


def _pools(client: Client, _begun: str) -> Iterator[str]:
    return (str(each["name"]) for each in client.call("GET", "/cluster/pools"))


projects, units = _offer(_projects), _offer(_units)
workloads, pools = _offer(_workloads), _offer(_pools)
