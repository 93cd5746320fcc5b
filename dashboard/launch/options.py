"""The flags of ``up``; each has a twin in the environment, TIDEGATE_ and its name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboard.launch.install import ROOT

DEMOS = {
    "card": "one card shared by services and trainings, the article's example",
    "server": "eight devices, whole and in fractions",
    "racks": "eight nodes of eight devices, about sixty light processes",
}
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What the person asked of ``up``."""

    demo: str
    is_demo_chosen: bool
    is_empty: bool
    host: str
    port: int
    data: Path
    opens_browser: bool


def parse(argv: Sequence[str]) -> UpOptions:
    parser = argparse.ArgumentParser(
        prog="manage.py up",
        description="Set up and start the whole product; Ctrl-C ends it.",
        epilog="The environment can give each flag: TIDEGATE_PORT=9000, TIDEGATE_EMPTY=1 ...",
    )
    demos = "; ".join(f"{name}: {what}" for name, what in DEMOS.items())
    parser.add_argument("--empty", action="store_true", help="start with no demonstration")
    parser.add_argument("--demo", choices=list(DEMOS), help=f"the demonstration ({demos})")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=_port, help="port, or the next free one (8000)")
    parser.add_argument("--data", type=Path, help="folder that keeps all data (./var)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    given = parser.parse_args(list(argv))
    named_demo = given.demo or os.environ.get("TIDEGATE_DEMO", "")
    if named_demo and named_demo not in DEMOS:
        parser.error(f"TIDEGATE_DEMO is {named_demo!r}; choose from {', '.join(DEMOS)}")
    try:
        port = given.port if given.port is not None else _port(_variable("TIDEGATE_PORT", "8000"))
    except argparse.ArgumentTypeError as error:
        parser.error(f"TIDEGATE_PORT: {error}")
    data = given.data or Path(_variable("TIDEGATE_DATA", str(ROOT / "var")))
    return UpOptions(
        demo=named_demo or "card",
        is_demo_chosen=bool(named_demo),
        is_empty=given.empty or _is_set("TIDEGATE_EMPTY"),
        host=given.host or _variable("TIDEGATE_HOST", "127.0.0.1"),
        port=port,
        data=data.expanduser().absolute(),
        opens_browser=not (given.no_browser or _is_set("TIDEGATE_NO_BROWSER")),
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number (0 to 65535)")
    return int(text)


def _variable(name: str, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def _is_set(name: str) -> bool:
    return _variable(name, "").lower() in TRUE_WORDS
