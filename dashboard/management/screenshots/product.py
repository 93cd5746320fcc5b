"""A product for pictures: ``up`` with a demonstration in a throw-away folder, on a free port."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.launch.install import ROOT

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


@contextmanager
def running(*, demo: str) -> Iterator[Door]:
    """Start a product with a demonstration; end it and its work afterwards.

    Raises:
        NotStarted: it did not come up.
    """
    data = Path(tempfile.mkdtemp(prefix="tidegate-pictures-"))
    password = secrets.token_urlsafe(12)
    said = data / "up.out"
    environment = {
        **{name: value for name, value in os.environ.items() if not _is_of_another(name)},
        "TIDEGATE_DATA": str(data),
        "TIDEGATE_ADMIN_PASSWORD": password,
        "DATABASE_URL": "",
    }
    flags = ["--demo", demo, "--no-browser", "--port", "0", "--data", str(data)]
    with open(said, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *flags],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Door(address=_wait_for(process, said), password=password)
    finally:
        _end(process)
        # Work outlives the product; it ends when its folder is gone from its place.
        shutil.rmtree(data, ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes], said: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        found = READY.search(said.read_text(errors="replace"))
        if found:
            return found[1].rstrip("/")
        time.sleep(0.2)
    raise NotStarted(said.read_text(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
