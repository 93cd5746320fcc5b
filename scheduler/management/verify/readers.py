"""What is read outside the scheduler's tables: processes of the machine and their output."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import httpx
import psutil

from scheduler.engines.base import EngineUnreachable, ReplicaKey
from scheduler.management.verify import engines

#: Given to each workload of a run; its processes carry it in their environment.
MARKER = "VERIFICATION"
LOG_BYTES = 8 * 2**20
#: A node that is busy may not answer at once; its output is not what is missing then.
REACHED_WITHIN_S = 90.0

T = TypeVar("T")


def boot_error_s() -> float:
    """Return what the start times of processes are early by: the boot's time is kept in whole seconds."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - psutil.boot_time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The first process of one replica, as the machine's process table shows it."""

    name: str
    pid: int
    started_at_s: float
    key: str
    mgpu: int
    port: int
    host: str = "127.0.0.1"

    @property
    def identity(self) -> str:
        """Return number and start: a number alone may be another process's tomorrow."""
        began = datetime.fromtimestamp(self.started_at_s).astimezone()
        return f"{self.name} pid {self.pid} since {began:%H:%M:%S.%f}"[:-4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """All replicas of one run that live at one instant."""

    found: tuple[Process, ...] = ()

    def names(self, prefix: str = "") -> str:
        """Return the names in order; a workload that runs twice stands there twice."""
        chosen = sorted((p.name for p in self.found if p.name.startswith(prefix)), key=_in_order)
        return ", ".join(chosen) or "none"

    def of(self, name: str) -> Process | None:
        """Return the process of a workload, or None."""
        return next((p for p in self.found if p.name == name), None)

    def starting_with(self, prefix: str) -> tuple[Process, ...]:
        """Return the processes of the workloads whose names begin so."""
        chosen = (p for p in self.found if p.name.startswith(prefix))
        return tuple(sorted(chosen, key=lambda p: _in_order(p.name)))

    def mgpu(self, prefix: str = "") -> int:
        """Return what these replicas were told that they hold."""
        return sum(p.mgpu for p in self.found if p.name.startswith(prefix))


def read_processes(run: str) -> Processes:
    """Return the living replicas of a run, from the environment of every process of the machine."""
    marked: dict[int, tuple[int, Process]] = {}
    for process in psutil.process_iter(["ppid", "create_time", "environ", "status"]):
        about = process.info
        environ = about["environ"] or {}
        who, _, name = environ.get(MARKER, "").partition("/")
        if who != run or "TIDEGATE_REPLICA" not in environ:
            continue
        if about["status"] == psutil.STATUS_ZOMBIE:
            continue
        marked[process.pid] = (
            about["ppid"],
            Process(
                name=name,
                pid=process.pid,
                started_at_s=about["create_time"],
                key=environ["TIDEGATE_REPLICA"],
                mgpu=int(environ.get("TIDEGATE_GPU_MILLI", "0")),
                port=int(environ.get("PORT", "0")),
                host=environ.get("HOST", "127.0.0.1"),
            ),
        )
    return Processes(found=tuple(p for ppid, p in marked.values() if ppid not in marked))


def answers(process: Process | None) -> bool:
    """Test whether a service answers on the port that it was given."""
    if process is None:
        return False
    try:
        answer = httpx.get(f"http://{process.host}:{process.port}/health", timeout=30)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def read_log(key: str) -> str:
    """Return what a replica has printed, from its engine's files.

    Raises:
        EngineUnreachable: the node that has them does not answer for long.
    """
    deadline = time.monotonic() + REACHED_WITHIN_S
    while True:
        try:
            found = engines.engine().read_log(
                ReplicaKey.parse(key), offset=0, limit_bytes=LOG_BYTES
            )
        except EngineUnreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
            continue
        return found.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One line that a training printed. ``at_s``: the second of the day that stands before it."""

    at_s: int
    number: int
    loss: float
    best: str
    elapsed_s: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLog:
    """What one attempt of the example training has printed."""

    text: str
    epochs: tuple[Epoch, ...] = field(default=())

    @property
    def total_mib(self) -> int | None:
        """The device memory that it saw as the total when it began."""
        found = re.search(r"total memory (\d+) MiB", "\n".join(self.text.splitlines()[:3]))
        return int(found[1]) if found else None

    @property
    def goes_on(self) -> bool:
        """Test whether its epochs follow each other one by one, its time rising, from one start."""
        numbers = [epoch.number for epoch in self.epochs]
        times = [float(epoch.elapsed_s) for epoch in self.epochs]
        one_by_one = (
            numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False
        )
        return one_by_one and times == sorted(times) and self.text.count("total memory") == 1

    @property
    def longest_pause_s(self) -> int:
        """Return the longest time between two epochs, by the clock that it prints."""
        times = [epoch.at_s for epoch in self.epochs]
        return max(((b - a) % 86_400 for a, b in itertools.pairwise(times)), default=0)

    @property
    def last_saved(self) -> tuple[object, ...] | None:
        """Epoch, elapsed time and best value of the last checkpoint mark, as they were written."""
        return self._last_mark("checkpoint")

    @property
    def resumed(self) -> tuple[object, ...] | None:
        """Epoch, elapsed time and best value that it said it resumed from."""
        return self._last_mark("resumed")

    def has(self, words: str) -> bool:
        """Test whether a line has these words."""
        return words in self.text

    def _last_mark(self, kind: str) -> tuple[object, ...] | None:
        found = None
        for line in self.text.splitlines():
            if line.startswith("TIDEGATE {") and line.endswith("}"):
                mark = json.loads(line.removeprefix("TIDEGATE "), parse_float=str)
                if mark.get(kind) is True:
                    found = (mark.get("epoch"), mark.get("elapsed_s"), mark.get("best"))
        return found


_EPOCH = re.compile(
    r"\[(\d+):(\d+):(\d+)\] epoch\s+(\d+)/\d+ loss=([\d.]+) \S+ best=([\d.]+) "
    r"cum_train_time=([\d.]+)s"
)


def read_training(key: str) -> TrainingLog:
    """Return what a training has printed so far."""
    text = read_log(key)
    epochs = tuple(
        Epoch(
            at_s=int(hour) * 3600 + int(minute) * 60 + int(second),
            number=int(number),
            loss=float(loss),
            best=best,
            elapsed_s=elapsed,
        )
        for hour, minute, second, number, loss, best, elapsed in _EPOCH.findall(text)
    )
    return TrainingLog(text=text, epochs=epochs)


def settle(read: Callable[[], T], *, until: Callable[[T], bool], within_s: float) -> T:
    """Read again and again until it is so, or the time is over; return what was read last."""
    deadline = time.monotonic() + within_s
    while True:
        found = read()
        if until(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def identities(processes: Sequence[Process]) -> str:
    """Return who these processes are, in one line that can be compared."""
    return "; ".join(process.identity for process in processes) or "none"


def _in_order(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, 0)
