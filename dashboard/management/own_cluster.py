"""A Ray cluster of one's own: nodes on the loopback, joined as the docs say, and what can become of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from dashboard.launch.install import ROOT
from dashboard.launch.ports import free_port
from dashboard.management.own_product import NotStarted

NAMES = ("n1", "n2", "n3")
START_S, LEAVE_S, GONE_S = 300.0, 60.0, 10.0
AGENT = "ray::_Agent"


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Three nodes, n1 the head, each by ``manage.py join`` with virtual devices."""

    folder: Path
    shared: Path
    devices: int = 2
    port: int = field(default_factory=lambda: free_port(host="127.0.0.1", wanted=0))
    _joins: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.2:{self.port}"

    @property
    def token_file(self) -> str:
        return str(self.folder / "cluster.token")

    def environment(self, *, lease_s: int) -> dict[str, str]:
        """Return what tells a product to run its work here."""
        return {
            "TIDEGATE_RAY_ADDRESS": self.address,
            "TIDEGATE_RAY_TOKEN_FILE": self.token_file,
            "TIDEGATE_RAY_LEASE_S": str(lease_s),
            "TIDEGATE_WORKLOADS": str(self.shared),
        }

    def start(self) -> None:
        """Start the head, then the others; they find it by themselves.

        Raises:
            NotStarted: the head did not come up.
        """
        self.join("n1")
        self._wait_for_head()
        for name in NAMES[1:]:
            self.join(name)

    def join(self, name: str) -> None:
        """Join as a node, or join again."""
        place = NAMES.index(name)
        command = [
            *(sys.executable, str(ROOT / "manage.py"), "join", "--name", name),
            *("--address", f"127.0.0.{place + 2}", "--virtual-devices", str(self.devices)),
            *("--data", str(self.folder / name), "--shared", str(self.shared)),
            *("--token-file", self.token_file),
            *(("--port", str(self.port)) if place == 0 else ("--head", self.address)),
        ]
        with open(self.folder / f"{name}.out", "ab") as output:
            self._joins[name] = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def leave(self, name: str) -> None:
        """End a node's ``join`` as Ctrl-C or a service manager does, and wait until it is over."""
        join = self._joins.pop(name)
        join.send_signal(signal.SIGTERM)
        try:
            join.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            join.kill()
            join.wait()

    def kill(self, name: str) -> None:
        """Kill all of a node's own processes at once, as when its machine loses touch; work goes on."""
        family = self._family(name)
        join = self._joins.pop(name)
        for process in (psutil.Process(join.pid), *family):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        join.wait(GONE_S)

    def kill_raylet(self, name: str) -> bool:
        """Kill what makes a node one of Ray; ``join`` starts it again. False where it is not there."""
        return _kill(process for process in self._family(name) if process.name() == "raylet")

    def kill_agent(self, name: str) -> bool:
        """Kill a node's agent, which Ray starts again. False where it is not there."""
        return _kill(process for process in self._family(name) if _is_agent(process))

    def stop(self) -> None:
        """End every node, the head last, and leave nothing behind."""
        for name in reversed(NAMES):
            if name in self._joins:
                self.leave(name)
        for process in psutil.process_iter(["cmdline", "environ"]):
            if _is_of(process, self.folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def _family(self, name: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            return psutil.Process(self._joins[name].pid).children(recursive=True)
        return []

    def _wait_for_head(self) -> None:
        until_s = time.monotonic() + START_S
        log = self.folder / "n1" / "node.log"
        while not log.exists() or "Ray runtime started" not in log.read_text(errors="replace"):
            said = (self.folder / "n1.out").read_text(errors="replace")
            if self._joins["n1"].poll() is not None or time.monotonic() > until_s:
                raise NotStarted(f"the head of the cluster did not come: {said}")
            time.sleep(0.2)


@contextlib.contextmanager
def cluster(folder: Path, *, shared: Path | None = None, devices: int = 2) -> Iterator[Cluster]:
    """Give a cluster of three nodes, and leave nothing of it behind.

    Raises:
        NotStarted: the head did not come up.
    """
    made = Cluster(folder=folder, shared=shared or folder / "shared", devices=devices)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _kill(found: Iterator[psutil.Process]) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in found:
            process.kill()
            return True
    return False


def _is_agent(process: psutil.Process) -> bool:
    return process.cmdline()[:1] == [AGENT]


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Test for a node's process, a supervisor, or work, which has the folder in its environment alone."""
    words = [*(process.info["cmdline"] or ()), *(process.info["environ"] or {}).values()]
    return any(str(folder) in word for word in words)
