"""A product of one's own: ``up`` in a folder and an environment that no other installation shares."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.launch.install import ROOT
from dashboard.launch.processes import Identity

_READY = re.compile(r"ready at (http://\S+)")
_SAID = "up.out"
START_S = 600.0
END_S = 60.0


class NotStarted(RuntimeError):
    """The product did not come up; what it said is the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where a running product is, and how to get in."""

    address: str
    password: str
    username: str = "admin"


def _is_of_another(name: str) -> bool:
    """Test whether a variable tells of an installation that may run here: this one has nothing of it."""
    return name == "REDIS_URL" or (name.startswith("TIDEGATE_") and name != "TIDEGATE_VENV_HOME")


@dataclass(slots=True, kw_only=True)
class OwnProduct:
    """One installation, which may be started again after it was ended or killed."""

    data: Path
    flags: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment in which this installation's commands run."""
        return {
            **{name: value for name, value in os.environ.items() if not _is_of_another(name)},
            "TIDEGATE_DATA": str(self.data),
            "TIDEGATE_ADMIN_PASSWORD": self.password,
            "DATABASE_URL": "",
            **self.more,
        }

    def start(self, *, port: int = 0) -> Door:
        """Start it and wait until it says that it is ready.

        Raises:
            NotStarted: it did not come up.
        """
        self.process = launch_up(self.data, flags=self.flags, port=port, env=self.environment())
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if address := address_told(self.data):
                return Door(address=address, password=self.password)
            time.sleep(0.2)
        raise NotStarted(output_of(self.data))

    def end(self) -> None:
        """End it as Ctrl-C does. Its work goes on."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def children(self) -> dict[str, Identity]:
        """Return its processes by name; none while it says nothing of them."""
        return children_of(self.data)

    def manage(self, *argv: str, within_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py on this installation."""
        return run_manage(*argv, env=self.environment(), within_s=within_s)


def launch_up(
    data: Path, *, flags: Iterable[str], port: int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start ``up`` in a data folder, in a process group of its own. What it says is kept there."""
    own = ["--no-browser", "--port", str(port), "--data", str(data)]
    data.mkdir(parents=True, exist_ok=True)
    with open(data / _SAID, "wb") as output:
        return subprocess.Popen(
            [sys.executable, "manage.py", "up", *flags, *own],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def output_of(data: Path) -> str:
    """Return what ``up`` has said in this folder so far."""
    said = data / _SAID
    return said.read_text(errors="replace") if said.exists() else ""


def address_told(data: Path) -> str:
    """Return where the product in this folder says that it is ready; empty before."""
    found = _READY.search(output_of(data))
    return found[1].rstrip("/") if found else ""


def children_of(data: Path) -> dict[str, Identity]:
    """Return the processes of the product in this folder by name; none while it says nothing of them."""
    file = data / "run" / "up.json"
    if not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))["children"].items()
    return {name: Identity(pid=pid, started=started) for name, (pid, started) in found}


def run_manage(
    *argv: str, env: Mapping[str, str], within_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py in an environment."""
    return subprocess.run(
        [sys.executable, "manage.py", *argv],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
