"""Engines under test: how to have each run this or that, and how to let time pass."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from scheduler.engines.base import (
    DeviceGrant,
    Engine,
    LaunchSpec,
    NodeInventory,
    ReplicaKey,
    Service,
)
from scheduler.engines.fake import FakeEngine
from scheduler.engines.local import LocalEngine

PATIENCE_S = 30.0


class Harness(Protocol):
    """One engine and the words in which a test speaks of its replicas."""

    #: It tells which process of this machine a replica is.
    names_processes: bool
    #: It knows before the launch whether a command is there.
    knows_commands: bool

    @property
    def engine(self) -> Engine: ...

    def runs_on(self) -> tuple[str, ...]: ...
    def exits(self, code: int) -> tuple[str, ...]: ...
    def ignores_term(self, key: ReplicaKey) -> tuple[str, ...]: ...
    def serves(self) -> tuple[str, ...]: ...
    def never_serves(self) -> tuple[str, ...]: ...
    def prints(self, key: ReplicaKey, text: str) -> tuple[str, ...]: ...
    def after_launch(self) -> None: ...
    def pass_time(self) -> None: ...
    def inventory(self) -> NodeInventory: ...
    def restart(self) -> None: ...


class LocalHarness:
    """Real processes of this machine."""

    names_processes = True
    knows_commands = True

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.device_memory: dict[int, int] = {}  # what a real card would tell, by pid
        self.engine = self._make()

    def runs_on(self) -> tuple[str, ...]:
        return ("sleep", "600")

    def exits(self, code: int) -> tuple[str, ...]:
        return ("sh", "-c", f"exit {code}")

    def ignores_term(self, key: ReplicaKey) -> tuple[str, ...]:
        return ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")

    def serves(self) -> tuple[str, ...]:
        return ("sh", "-c", "exec python -m http.server $PORT --bind 127.0.0.1")

    def never_serves(self) -> tuple[str, ...]:
        return ("sleep", "600")

    def prints(self, key: ReplicaKey, text: str) -> tuple[str, ...]:
        return ("sh", "-c", f"printf '%s' '{text}'; exec sleep 600")

    def after_launch(self) -> None:
        pass

    def pass_time(self) -> None:
        time.sleep(0.02)

    def inventory(self) -> NodeInventory:
        return self.engine.inventory()

    def restart(self) -> None:
        self.engine = self._make()

    def _make(self) -> LocalEngine:
        return LocalEngine(
            data_dir=self.data_dir,
            port_range=(27_000, 27_400),
            read_device_memory=lambda: self.device_memory,
        )

    def clean_up(self) -> None:
        """End all that a test left, and say so if anything can't be ended."""
        for seen in self.engine.observe():
            self.engine.terminate(seen.key, grace_s=0, reason="test over")
        for seen in self.engine.observe():
            wait_for(self, seen.key, lambda o: o.ended_at is not None)
        orphans = self.engine.orphans()
        for orphan in orphans:
            self.engine.end_orphan(orphan)
        assert orphans == ()


class FakeHarness:
    """The engine in memory."""

    names_processes = True
    knows_commands = True

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self._printed: list[tuple[ReplicaKey, str]] = []

    def runs_on(self) -> tuple[str, ...]:
        return ("fake",)

    def exits(self, code: int) -> tuple[str, ...]:
        return ("fake", f"exit={code}", "after=0")

    def ignores_term(self, key: ReplicaKey) -> tuple[str, ...]:
        self._printed.append((key, "deaf"))
        return ("fake", "ignores-term")

    def serves(self) -> tuple[str, ...]:
        return ("fake", "ready=1")

    def never_serves(self) -> tuple[str, ...]:
        return ("fake", "ready=1000000")

    def prints(self, key: ReplicaKey, text: str) -> tuple[str, ...]:
        self._printed.append((key, text))
        return ("fake",)

    def after_launch(self) -> None:
        for key, text in self._printed:
            self.engine.print_output(key, text)
        self._printed.clear()

    def pass_time(self) -> None:
        self.engine.advance(0.5)

    def inventory(self) -> NodeInventory:
        return self.engine.inventory()

    def restart(self) -> None:
        pass

    def clean_up(self) -> None:
        pass


def spec(
    command: tuple[str, ...], *, replica: int = 1, attempt: int = 1, **more: Any
) -> LaunchSpec:
    """Return what launches a command on 0.09 of a virtual card."""
    grant = DeviceGrant(index=0, uuid="VIRTUAL-0", request_mgpu=90, memory_mib=4146, virtual=True)
    fields: dict[str, Any] = {
        "key": ReplicaKey(replica_id=replica, attempt=attempt),
        "workload_id": replica,
        "project_name": "unit-a",
        "workload_name": f"train-{replica}",
        "command": command,
        "storage_key": f"workload-{replica}",
        "devices": (grant,),
        "grace_s": 5,
    }
    return LaunchSpec(**{**fields, **more})


def slice_of(memory_mib: int) -> tuple[DeviceGrant, ...]:
    """Return a grant of this much memory."""
    return (
        DeviceGrant(
            index=0, uuid="VIRTUAL-0", request_mgpu=90, memory_mib=memory_mib, virtual=True
        ),
    )


def service(path: str = "/", *, start_timeout_s: int = 60) -> Service:
    """Return what makes a replica a service."""
    return Service(readiness_path=path, start_timeout_s=start_timeout_s)


def launch(harness: Any, wanted: LaunchSpec) -> ReplicaKey:
    """Launch and return the key."""
    harness.engine.launch(wanted)
    harness.after_launch()
    return wanted.key


def find(harness: Any, key: ReplicaKey) -> Any:
    """Return what the engine tells of a key now."""
    return next((seen for seen in harness.engine.observe() if seen.key == key), None)


def wait_for(harness: Any, key: ReplicaKey, is_so: Callable[[Any], bool], *, what: str = "") -> Any:
    """Let time pass until something is so of a replica; fail with what was seen instead.

    Returns an Observation; untyped, since a test knows which of its parts are there.
    """
    until_s = time.monotonic() + PATIENCE_S
    seen = None
    while time.monotonic() < until_s:
        seen = find(harness, key)
        if seen is not None and is_so(seen):
            return seen
        harness.pass_time()
    log = harness.engine.read_log(key, offset=None, limit_bytes=2000).text
    raise AssertionError(f"never came: {what or 'the condition'}\nseen: {seen}\nlog: {log}")


def wait_ended(harness: Any, key: ReplicaKey) -> Any:
    """Let time pass until a replica has ended."""
    return wait_for(harness, key, lambda seen: seen.ended_at is not None, what="its end")


def wait_log(harness: Any, key: ReplicaKey, text: str) -> str:
    """Let time pass until a replica has printed something; return its log."""

    def read() -> str:
        return str(harness.engine.read_log(key, offset=0, limit_bytes=2**22).text)

    wait_for(harness, key, lambda _: text in read(), what=f"{text!r} in the log")
    return read()


def wait_true(is_so: Callable[[], bool], *, what: str) -> None:
    """Wait until something outside of an engine is so."""
    until_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until_s, f"never came: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def local(data_dir: Path) -> Iterator[LocalHarness]:
    """Give a local engine, and end all that it runs after."""
    harness = LocalHarness(data_dir)
    try:
        yield harness
    finally:
        harness.clean_up()


def is_running(pid: int) -> bool:
    """Test whether a process runs, by the process table alone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid: int) -> str:
    """Return what a process was started as."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.fsdecode(file.read().replace(b"\0", b" "))
