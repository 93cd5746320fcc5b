"""A real Ray cluster of three nodes on the loopback, joined as the docs say, and a node's sudden end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from dashboard.launch.install import ROOT
from dashboard.launch.ports import free_port

NAMES = ("n1", "n2", "n3")
START_S = 180.0


class Cluster:
    """Three nodes, n1 the head, each by ``manage.py join`` with two virtual devices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port(host="127.0.0.1", wanted=0)
        self.address = f"127.0.0.2:{self.port}"
        self.token_file = str(folder / "cluster.token")
        self._joins: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the head, then the others, and wait until the head knows of all."""
        self.join("n1")
        self._wait_for_head()
        for name in NAMES[1:]:
            self.join(name)

    def join(self, name: str) -> None:
        """Join as a node, or join again."""
        place = NAMES.index(name)
        command = [
            sys.executable,
            str(ROOT / "manage.py"),
            "join",
            "--name",
            name,
            "--pool",
            "main",
        ]
        command += ["--address", f"127.0.0.{place + 2}", "--virtual-devices", "2"]
        command += ["--data", str(self.folder / name), "--shared", str(self.folder / "shared")]
        command += ["--token-file", self.token_file]
        command += ["--port", str(self.port)] if place == 0 else ["--head", self.address]
        with open(self.folder / f"{name}.out", "ab") as output:
            self._joins[name] = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def leave(self, name: str) -> None:
        """End a node's ``join`` as Ctrl-C or a service manager does, and wait until it is over."""
        self._joins[name].send_signal(signal.SIGTERM)
        self._joins[name].wait(60)

    def kill(self, name: str) -> None:
        """Kill all of a node's own processes at once, as when its machine loses touch; work goes on."""
        join = self._joins.pop(name)
        family = [psutil.Process(join.pid), *psutil.Process(join.pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        join.wait(10)

    def stop(self) -> None:
        """End every node, the head last."""
        for name in reversed(NAMES):
            if name in self._joins:
                self.leave(name)

    def _wait_for_head(self) -> None:
        until_s = time.monotonic() + START_S
        log = self.folder / "n1" / "node.log"
        while not log.exists() or "Ray runtime started" not in log.read_text(errors="replace"):
            out = (self.folder / "n1.out").read_text()
            assert self._joins["n1"].poll() is None, f"the head ended: {out}"
            assert time.monotonic() < until_s, f"the head did not come: {out}"
            time.sleep(0.2)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Give a cluster of three nodes, and leave nothing of it behind."""
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        left = [p for p in psutil.process_iter(["cmdline", "environ"]) if _is_of(p, folder)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Test for a node's process, a supervisor, or work, which has the folder in its environment alone."""
    words = [*(process.info["cmdline"] or ()), *(process.info["environ"] or {}).values()]
    return any(str(folder) in word for word in words)
