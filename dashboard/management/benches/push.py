"""``bench push``: goal 12. What it costs to tell many open pages of changes, ten times a second.

A server process runs the product's own live socket: one state of 2 KiB changes ten times a second and
goes to all pages of one scope from memory. Beside it, on the same machine, the same messages go to the
members of one group of Channels over Redis. A client process holds the sockets and notes how late each
message is. Server and clients share the cores, so at 2,000 the clients are much of what is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from dashboard.launch import resp
from dashboard.launch.redis import plan_redis
from scheduler.management.benches import full_cluster
from scheduler.management.benches.table import Row

ABOUT = "2 KiB ten times a second to 500 and 2,000 pages (goal 12)"
SOCKETS = (500, 2000)
GROUP_SOCKETS = 100
SECONDS = 10.0
TICK_MS = 1000
RATIO_GOAL = 4
START_S = 90.0


class BenchFailed(RuntimeError):
    """The server did not come up, or the sockets did not open."""


def run() -> Iterator[Row]:
    """Measure the product's fan-out, then one group of Channels; yield the rows.

    Raises:
        BenchFailed: a process did not come up.
    """
    own = 0.0
    for count in SOCKETS:
        found = _measure("own", count)
        own = own or found["per_cpu_s"]
        is_goal = count == SOCKETS[0]
        yield Row(
            what=f"{count:,} pages: how late a message is, p95",
            value=found["p95_ms"],
            unit="ms",
            goal=f"<= {TICK_MS}" if is_goal else "",
            passed=found["p95_ms"] <= TICK_MS if is_goal else None,
        )
        yield Row(what="messages a page, of 10 a second", value=found["per_page_s"], unit="/s")
        yield Row(what="frames a CPU second of the server", value=found["per_cpu_s"], unit="/CPU s")
    group = _measure("group", GROUP_SOCKETS)
    yield Row(
        what=f"one group of Channels, {GROUP_SOCKETS} sockets: frames a CPU second",
        value=group["per_cpu_s"],
        unit="/CPU s",
        note=f"p95 {group['p95_ms']:.0f} ms",
    )
    ratio = own / group["per_cpu_s"]
    yield Row(
        what=f"the product's at {SOCKETS[0]} against it",
        value=ratio,
        unit="x",
        goal=f">= {RATIO_GOAL}",
        passed=ratio >= RATIO_GOAL,
    )


def _measure(way: str, count: int) -> dict[str, float]:
    with _server(way) as (process, port):
        code = "dashboard.management.benches.push"
        done = subprocess.run(
            [sys.executable, "-m", code, str(port), str(count), str(process.pid)],
            cwd=full_cluster.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BenchFailed(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _server(way: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        plan = plan_redis(data=Path(folder), first_port=0)
        redis = subprocess.Popen(plan.argv, cwd=folder, stdout=subprocess.DEVNULL)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        given = full_cluster.environment(folder, redis_url=plan.url)
        app = f"dashboard.management.benches.push_server:{way}"
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning"],
            cwd=full_cluster.ROOT,
            env=given,
        )
        try:
            _wait_for(process, plan.url, port)
            yield process, port
        finally:
            for each in (process, redis):
                each.terminate()
                each.wait(timeout=20)


def _wait_for(process: subprocess.Popen[bytes], redis_url: str, port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if resp.ping(redis_url):
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    return
        time.sleep(0.1)
    raise BenchFailed("the server did not come up")


# --- The process with the sockets ----------------------------------------------------------------


async def _listen(port: int, count: int, server: psutil.Process) -> dict[str, float]:
    opened, closing = asyncio.Semaphore(50), asyncio.Event()
    late_ms: list[float] = []
    counting = False

    async def one() -> None:
        import websockets

        address = f"ws://127.0.0.1:{port}/ws/live/"
        async with opened:
            wire = await websockets.connect(address, compression=None, open_timeout=60)
            await wire.send(json.dumps({"op": "sub", "topics": ["map"], "pool": "bench"}))
            await wire.recv()
        ready.append(1)
        while not closing.is_set():
            message = json.loads(await wire.recv())
            if counting and message["t"] == "d":
                late_ms.append(time.time() * 1000 - message["ts"])
        await wire.close()

    ready: list[int] = []
    tasks = [asyncio.create_task(one()) for _ in range(count)]
    while len(ready) < count:
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.2)
    await asyncio.sleep(2)
    counting, before, began = True, _cpu_s(server), time.monotonic()
    await asyncio.sleep(SECONDS)
    counting, took_s, used_s = False, time.monotonic() - began, _cpu_s(server) - before
    closing.set()
    await asyncio.wait(tasks, timeout=20)
    return {
        "p95_ms": statistics.quantiles(late_ms, n=20)[18],
        "per_page_s": len(late_ms) / count / took_s,
        "per_cpu_s": len(late_ms) / used_s,
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Hold the sockets, print the figures as JSON."""
    import resource

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, count, pid = (int(each) for each in sys.argv[1:4])
    print(json.dumps(asyncio.run(_listen(port, count, psutil.Process(pid)))))  # noqa: T201


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    main()
