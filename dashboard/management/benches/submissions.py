"""``bench submissions``: ten thousand submissions as fast as the API takes them, a thousand running at once.

A product of its own, with 64 virtual devices on eight nodes. Each workload is one sleeping process under
its own supervisor. While they come and while they run, a signed-in reader opens the pages again and again.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import psutil
from django.conf import settings
from django.shortcuts import resolve_url

from dashboard.management.own_product import Door, OwnProduct
from scheduler.management.benches.table import Row

ABOUT = "10,000 submissions, 1,000 running at once, pages meanwhile"
SUBMISSIONS, AT_ONCE = 10_000, 1000
CALLERS = 4
#: Sixteen on each of 64 devices.
REQUEST_MGPU = 62
ALL_MGPU = 64_000
#: A sleep that nobody else on this machine sleeps, so that its processes can be counted.
SLEEP = "86427"
RUNNING_WITHIN_S, LOOK_S = 2400.0, 1.0
PAGES = ("/", "/workloads")
PAGE_PAUSE_S, PAGE_TIMEOUT_S = 0.5, 60.0


class NotAllTaken(RuntimeError):
    """The API refused a submission; its answer is the text."""


def run() -> Iterator[Row]:
    """Measure, and yield each row as soon as it is known.

    Raises:
        NotStarted: the product did not come up.
        NotAllTaken: a submission was refused.
    """
    data = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    more = {"TIDEGATE_API_PER_MINUTE": "10000000"}
    product = OwnProduct(data=data, flags=("--demo", "racks"), more=more)
    try:
        door = product.start()
        token = product.manage("token", "admin").stdout.strip()
        with _api(door, token) as api:
            project_id = _make_room(api)
        with _Reader(door) as reader:
            yield from _submit_all(door, token, project_id, reader)
            with _api(door, token) as api:
                yield from _wait_for_running(api, reader)
                yield from _count(api)
    finally:
        product.end()
        shutil.rmtree(data, ignore_errors=True)  # work ends when its folder is gone


@contextmanager
def _api(door: Door, token: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=f"{door.address}/api/v1", headers=headers, timeout=PAGE_TIMEOUT_S
    ) as client:
        yield client


def _make_room(api: httpx.Client) -> int:
    """Take the demonstration's own work away, give one project all that there is, and return it."""
    asked: set[int] = set()
    while rows := api.get("/workloads?limit=500").raise_for_status().json()["items"]:
        for row in rows:
            if row["id"] not in asked:
                asked.add(row["id"])
                api.delete(f"/workloads/{row['id']}").raise_for_status()
        time.sleep(LOOK_S)  # what runs is stopped first
    tree = api.get("/quotas").raise_for_status().json()
    projects = [row for row in tree["rows"] if row["level"] == "project"]
    chosen = projects[0]
    own = (("project", chosen["id"]), ("department", chosen["department_id"]))
    rows = [
        {
            "level": row["level"],
            "id": row["id"],
            "quota_mgpu": ALL_MGPU if (row["level"], row["id"]) in own else 0,
            "limit_mgpu": -1,
        }
        for row in tree["rows"]
    ]
    saved = api.put("/quotas", json={"rows": rows}, headers={"If-Match": tree["etag"]})
    saved.raise_for_status()
    return int(chosen["id"])


class _Reader:
    """A signed-in reader who opens pages in turn, in a thread, and notes how long each took."""

    def __init__(self, door: Door) -> None:
        self._http = httpx.Client(base_url=door.address, timeout=PAGE_TIMEOUT_S)
        self._door = door
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._took: list[float] = []
        self.failed = 0

    def __enter__(self) -> _Reader:
        path = resolve_url(settings.LOGIN_URL)
        self._http.get(path).raise_for_status()
        form = {
            "username": self._door.username,
            "password": self._door.password,
            "csrfmiddlewaretoken": self._http.cookies["tidegate_csrf"],
        }
        answer = self._http.post(path, data=form)
        if answer.status_code != httpx.codes.FOUND:
            raise RuntimeError(f"sign-in refused: {answer.status_code}")
        self._thread.start()
        return self

    def __exit__(self, *_about: object) -> None:
        self._over.set()
        self._thread.join(PAGE_TIMEOUT_S)
        self._http.close()

    def take(self, when: str) -> list[Row]:
        """Return the rows of what was read since the last time."""
        took, self._took = self._took, []
        return _quantiles(f"a page, {when}", took)

    def _read(self) -> None:
        for page in cycle(PAGES):
            if self._over.wait(PAGE_PAUSE_S):
                return
            began = time.monotonic()
            try:
                self._http.get(page).raise_for_status()
                self._took.append(time.monotonic() - began)
            except httpx.HTTPError:
                self.failed += 1


def _submit_all(door: Door, token: str, project_id: int, reader: _Reader) -> Iterator[Row]:
    began = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as pool:
        shares = [range(first, SUBMISSIONS, CALLERS) for first in range(CALLERS)]
        took = [
            each
            for own in pool.map(lambda share: _submit(door, token, project_id, share), shares)
            for each in own
        ]
    all_s = time.monotonic() - began
    yield Row(what=f"{SUBMISSIONS:,} submissions, {CALLERS} callers", value=all_s)
    yield Row(what="submissions a second", value=SUBMISSIONS / all_s, unit="/s")
    yield from _quantiles("a submission", took)
    yield from reader.take("while they come")


def _submit(door: Door, token: str, project_id: int, numbers: Sequence[int]) -> list[float]:
    took: list[float] = []
    with _api(door, token) as api:
        for number in numbers:
            body = {
                "name": f"tiny-{number}",
                "project_id": project_id,
                "command": ["sleep", SLEEP],
                "request_mgpu": REQUEST_MGPU,
                "grace_s": 1,
            }
            began = time.monotonic()
            answer = api.post("/workloads", json=body)
            took.append(time.monotonic() - began)
            if answer.status_code != httpx.codes.CREATED:
                raise NotAllTaken(f"{answer.status_code} {answer.text[:300]}")
    return took


def _wait_for_running(api: httpx.Client, reader: _Reader) -> Iterator[Row]:
    began = time.monotonic()
    while (running := _total(api, "running")) < AT_ONCE:
        if time.monotonic() - began > RUNNING_WITHIN_S:
            break
        time.sleep(LOOK_S)
    reached = running >= AT_ONCE
    yield Row(
        what=f"from the last submission to {AT_ONCE:,} running",
        value=time.monotonic() - began,
        note="" if reached else f"given up: {running} run",
    )
    yield Row(
        what="running at once, by the product",
        value=running,
        unit="",
        goal=f"{AT_ONCE}",
        passed=reached,
    )
    yield Row(what="running at once, by the process table", value=_processes(), unit="")
    reader.take("thrown away: it began before")
    time.sleep(20 * PAGE_PAUSE_S)
    yield from reader.take(f"{running:,} running")
    yield Row(what="pages that were not answered", value=reader.failed, unit="", goal="0")


def _count(api: httpx.Client) -> Iterator[Row]:
    """Walk the whole list: every name once, each in a state that is true of one that sleeps."""
    names: list[str] = []
    query: dict[str, Any] = {"limit": 500}
    while True:
        page = api.get("/workloads", params=query).raise_for_status().json()
        names += [row["name"] for row in page["items"] if row["phase"] in _TRUE_PHASES]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    lost = SUBMISSIONS - len({name for name in names if name.startswith("tiny-")})
    yield Row(what="lost", value=lost, unit="", goal="0", passed=lost == 0)


_TRUE_PHASES = frozenset({"pending", "starting", "running"})


def _total(api: httpx.Client, phase: str) -> int:
    with suppress(httpx.TransportError):  # it is looked again in a second
        return int(api.get(f"/workloads?limit=1&phase={phase}").raise_for_status().json()["total"])
    return 0


def _processes() -> int:
    """Return how many processes of this machine sleep so long."""
    found = 0
    for process in psutil.process_iter(["cmdline"]):
        found += (process.info["cmdline"] or [])[:2] == ["sleep", SLEEP]
    return found


def _quantiles(what: str, took: list[float]) -> list[Row]:
    if len(took) < 2:
        return [Row(what=f"{what}: readings", value=len(took), unit="")]
    cuts = statistics.quantiles(took, n=20)
    return [
        Row(what=f"{what}, median of {len(took):,}", value=statistics.median(took)),
        Row(what=f"{what}, p95", value=cuts[-1]),
    ]
