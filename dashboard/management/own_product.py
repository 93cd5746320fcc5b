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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.launch.install import ROOT
from dashboard.launch.processes import Identity

READY = re.compile(r"ready at (http://\S+)")
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
        flags = [*self.flags, "--no-browser", "--port", str(port), "--data", str(self.data)]
        said = self.data / "up.out"
        with open(said, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *flags],
                cwd=ROOT,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = READY.search(said.read_text(errors="replace"))
            if found:
                return Door(address=found[1].rstrip("/"), password=self.password)
            time.sleep(0.2)
        raise NotStarted(said.read_text(errors="replace"))

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
        file = self.data / "run" / "up.json"
        if not file.exists():
            return {}
        state = json.loads(file.read_text(encoding="utf-8"))
        found = state["children"].items()
        return {name: Identity(pid=pid, started=started) for name, (pid, started) in found}

    def manage(self, *argv: str, within_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py on this installation."""
        return subprocess.run(
            [sys.executable, "manage.py", *argv],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
