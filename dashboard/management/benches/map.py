"""``bench map``: goal 15. The map of 1,000 GPUs in a browser, while the server changes twenty a second.

A database of its own, a web server, a Redis and a Chromium. After the page has settled, rows change for a
minute and the tick's word is given for each; the page hears of them in deltas. What the page's main
thread did is read from the browser's trace: by the clock, and by the CPU time of the task alone, since
on a machine that does other work the clock also counts what others took. The heap is measured after a
garbage collection, before and after the minute.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashboard.launch import resp
from dashboard.launch.ports import free_port
from dashboard.launch.redis import plan_redis
from scheduler.management.benches import full_cluster
from scheduler.management.benches.table import Row

ABOUT = "the map in a browser, 20 changes a second for a minute (goal 15)"
SIZES = (1000, 4000)
#: Of the larger one only that it can be used is asked.
GOAL_SIZE = 1000
CHANGES_PER_S = 20
SECONDS = 60.0
SETTLE_S = 8.0
TASK_GOAL_MS = 50.0
HEAP_GOAL_PERCENT = 10.0
START_S = 120.0
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
MAIN_THREAD, TASK = "CrRendererMain", "ThreadControllerImpl::RunTask"


class BenchFailed(RuntimeError):
    """Something that the measurement needs is not there."""


def run() -> Iterator[Row]:
    """Measure, and yield the rows.

    Raises:
        BenchFailed: no browser, or the server did not come up.
    """
    program = os.environ.get("TIDEGATE_CHROMIUM") or shutil.which("chromium")
    if not program:
        raise BenchFailed("no Chromium: install it, for instance by apt-get install chromium")
    for size in SIZES:
        with _product(size) as (address, given):
            found = _watch(program, address, given)
        yield from _rows(size, found)


def _rows(size: int, found: dict[str, float]) -> Iterator[Row]:
    is_goal = size == GOAL_SIZE
    yield Row(what=f"{size:,} GPUs: until the map stands", value=found["first_s"])
    yield Row(what="deltas in the minute", value=found["deltas"], unit="")
    yield Row(
        what="the longest task of the main thread, CPU",
        value=found["cpu_ms"],
        unit="ms",
        goal=f"<= {TASK_GOAL_MS:.0f}" if is_goal else "",
        passed=found["cpu_ms"] <= TASK_GOAL_MS if is_goal else None,
    )
    yield Row(what="the same by the clock", value=found["wall_ms"], unit="ms")
    yield Row(what="tasks above 50 ms, CPU", value=found["long"], unit="")
    yield Row(what="heap before", value=found["before"] / 2**20, unit="MiB")
    grown = (found["after"] / found["before"] - 1) * 100
    yield Row(
        what="heap after against before",
        value=grown,
        unit="%",
        goal=f"<= {HEAP_GOAL_PERCENT:.0f}" if is_goal else "",
        passed=grown <= HEAP_GOAL_PERCENT if is_goal else None,
    )


@contextmanager
def _product(size: int) -> Iterator[tuple[str, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        plan = plan_redis(data=Path(folder), first_port=0)
        redis = subprocess.Popen(plan.argv, cwd=folder, stdout=subprocess.DEVNULL)
        given = full_cluster.environment(folder, redis_url=plan.url)
        full_cluster.prepare(given)
        subprocess.run([*_self("fill"), str(size)], cwd=full_cluster.ROOT, env=given, check=True)
        port = free_port(host="127.0.0.1", wanted=0)
        web = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "dashboard.asgi:application", "--port", str(port)],
            cwd=full_cluster.ROOT,
            env=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port, plan.url)
            yield f"http://127.0.0.1:{port}", given
        finally:
            for each in (web, redis):
                each.terminate()
                each.wait(timeout=30)


def _self(act: str) -> list[str]:
    return [sys.executable, "-m", "dashboard.management.benches.map", act]


def _wait_for(port: int, redis_url: str) -> None:
    import socket

    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as door:
            if resp.ping(redis_url) and door.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise BenchFailed("the server did not come up")


def _watch(program: str, address: str, given: dict[str, str]) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(f"{address}/login")
        page.locator("[name=username]").fill("admin")
        page.locator("[name=password]").fill(full_cluster.PASSWORD)
        page.locator("[name=password]").press("Enter")
        page.wait_for_selector("#rail", timeout=START_S * 1000)
        deltas: list[int] = []
        page.on(
            "websocket", lambda wire: wire.on("framereceived", lambda frame: _count(frame, deltas))
        )
        began = time.monotonic()
        page.goto(f"{address}/map", timeout=START_S * 1000)
        page.wait_for_selector(".map .g", timeout=START_S * 1000)
        first_s = time.monotonic() - began
        page.wait_for_timeout(SETTLE_S * 1000)
        devtools = page.context.new_cdp_session(page)
        before, deltas[:] = _heap(devtools), []
        browser.start_tracing(page=page, categories=["toplevel"])
        changer = subprocess.Popen(_self("change"), cwd=full_cluster.ROOT, env=given)
        while changer.poll() is None:
            page.wait_for_timeout(500)
        trace = json.loads(browser.stop_tracing())
        heard, after = len(deltas), _heap(devtools)
        browser.close()
    if changer.returncode or not heard:
        raise BenchFailed("no change reached the page: nothing was measured")
    cpu_ms, wall_ms, long = _tasks(trace["traceEvents"])
    return {
        "first_s": first_s,
        "deltas": heard,
        "before": before,
        "after": after,
        "cpu_ms": cpu_ms,
        "wall_ms": wall_ms,
        "long": long,
    }


def _count(frame: object, deltas: list[int]) -> None:
    if str(frame).startswith('{"t":"d"'):
        deltas.append(1)


def _heap(devtools: Any) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    return float(devtools.send("Runtime.getHeapUsage")["usedSize"])


def _tasks(events: list[dict[str, Any]]) -> tuple[float, float, int]:
    """Return the longest task of the busiest page's main thread, CPU and clock, and how many were long."""
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == MAIN_THREAD
    }
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        where = (event.get("pid", 0), event.get("tid", 0))
        if event.get("name") == TASK and where in threads and "dur" in event:
            took = (event.get("tdur", event["dur"]) / 1000, event["dur"] / 1000)
            by_thread.setdefault(where, []).append(took)
    if not by_thread:
        raise BenchFailed("the browser's trace holds no task of a page")
    tasks = max(by_thread.values(), key=lambda found: sum(cpu for cpu, _ in found))
    long = sum(cpu > TASK_GOAL_MS for cpu, _ in tasks)
    return max(cpu for cpu, _ in tasks), max(wall for _, wall in tasks), long


# --- Processes of their own: the rows ------------------------------------------------------------


def main() -> None:
    """Fill the tables, or change them for a minute."""
    import django

    django.setup()
    if sys.argv[1] == "fill":
        from django.utils import timezone

        full_cluster.fill_pool("main", devices=int(sys.argv[2]), now=timezone.now())
    else:
        full_cluster.change(per_s=CHANGES_PER_S, seconds=SECONDS)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    main()
