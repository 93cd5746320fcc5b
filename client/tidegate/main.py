"""The command ``tidegate``: what people and scripts do with a cluster, over its REST API.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 not signed in, 4 no such thing, 5 server unreachable.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from tidegate import __version__, quotas, workloads
from tidegate.client import ApiError, Client, NotSignedIn, Unreachable
from tidegate.cluster import models, nodes, report, services, top
from tidegate.config import Config, write
from tidegate.moving.found import ImportRefused
from tidegate.moving_in import import_file
from tidegate.session import Session, form_option, session
from tidegate.waiting import wait

EXIT_REFUSED, EXIT_NOT_SIGNED_IN, EXIT_NOT_FOUND, EXIT_UNREACHABLE = 1, 3, 4, 5


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--url", default="", help="The server; else TIDEGATE_URL, else where you signed in.")
@click.option("--language", default="", help="Of messages: en or zh-hant.")
@click.pass_context
def cli(context: click.Context, url: str, language: str) -> None:
    """Work with a Tidegate cluster."""
    context.obj = Session(url=url, language=language)


@cli.command()
@click.option("--url", prompt="Address of the server", help="Such as https://tidegate.example")
@click.option(
    "--token",
    prompt="Access token",
    hide_input=True,
    help="Made on your account's page. Left out, it is asked for.",
)
def login(url: str, token: str) -> None:
    """Keep the address and an access token for later commands."""
    with Client(url, token) as client:
        me = client.me()
    file = write(Config(url=url.rstrip("/"), token=token))
    click.echo(f"Signed in as {me['name']}. Kept in {file}, readable by you only.")


@cli.command()
@form_option
@session
def whoami(own: Session, form: str) -> None:
    """Say who the token is, and its roles."""
    me = own.client.me()
    if form != "table":
        own.print(me, form=form)
        return
    click.echo(me["name"])
    for each in me["roles"]:
        of = "" if each["scope_id"] is None else f" {each['scope_id']}"
        click.echo(f"  {each['role']} of {each['scope']}{of}")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: eval "$(tidegate completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "tidegate", "_TIDEGATE_COMPLETE").source())


for each in (
    workloads.submit,
    workloads.list_workloads,
    workloads.describe,
    workloads.logs,
    wait,
    workloads.stop,
    workloads.start,
    workloads.delete,
    top,
    nodes,
    services,
    models,
    report,
    quotas.quotas,
    import_file,
):
    cli.add_command(each)


def main() -> None:
    """Run the command; refusals become a sentence on standard error and an exit code."""
    sys.exit(run(lambda: cli(standalone_mode=False)))


def run(act: Callable[[], Any]) -> int:
    """Return the exit code of ``act``."""
    try:
        found = act()
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        return EXIT_REFUSED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except ApiError as error:
        return _refused(error)
    except ImportRefused as error:
        click.echo(f"{error} Nothing is done.", err=True)
        return EXIT_REFUSED
    except Unreachable as error:
        click.echo(str(error), err=True)
        return EXIT_UNREACHABLE
    except ValueError as error:
        click.echo(str(error), err=True)
        return 2
    return found if isinstance(found, int) else 0


def _refused(error: ApiError) -> int:
    if error.problems:
        for problem in error.problems:
            click.echo(f"{problem.field}: {problem.message}", err=True)
    else:
        click.echo(error.message, err=True)
    click.echo(f"({error.code})", err=True)
    if isinstance(error, NotSignedIn):
        click.echo("Sign in: tidegate login", err=True)
        return EXIT_NOT_SIGNED_IN
    return EXIT_NOT_FOUND if error.status == 404 else EXIT_REFUSED
