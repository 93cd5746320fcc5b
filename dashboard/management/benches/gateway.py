"""``bench gateway``: goal 14. What the gateway adds to a replica's latency and takes of its rate.

One replica of the example inference server runs on a scratch card of the running product. The same
streamed chat, of one token and of many, is asked of the bare replica and through the gateway, in turn,
by 1, 16 and 128 callers at once. Callers, gateway and replica share the machine, so what each took of
its processors is told beside: on a machine that has processors to spare, the slowest of the three sets
the rate.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil
import uvloop

from gateway.upstream import Broken, Refused, Upstream, head_of
from scheduler.core.autoscale import Metric
from scheduler.management.benches.table import Row
from scheduler.management.verify import serving
from scheduler.management.verify.layout import CARD, article_units
from scheduler.management.verify.readers import settle
from scheduler.management.verify.registry import alone
from scheduler.management.verify.scene import Scene, open_scene
from scheduler.management.verify.stage import find_address

ABOUT = "the gateway against the bare replica, streamed chats (goal 14)"
#: Callers at once, tokens of an answer, requests of a round.
LOADS = ((1, 1, 200), (16, 1, 800), (128, 1, 1280), (128, 32, 640))
ROUNDS = 3
ADDED_GOAL_MS = 3.0
RATE_GOAL_PERCENT = 70
MODEL = "bench"
READY_WITHIN_S = 60.0


class NeverAnswered(RuntimeError):
    """The replica did not come up, or an answer was not a good one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes: to the replica itself or to the gateway, which wants a key."""

    host: str
    port: int
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The middle of the latencies and the rate of one run, and the CPU that each request took."""

    median_ms: float
    per_s: float
    callers_us: float
    replica_us: float
    gateway_us: float


def run() -> list[Row]:
    """Measure on the product that runs with this data folder.

    Raises:
        NotRunning: there is none.
        NeverAnswered: the replica is not there, or refuses.
    """
    url = urlsplit(find_address())
    with alone(), open_scene(layout=CARD, units=article_units(CARD)) as scene:
        bare = _start(scene)
        key = serving.make_key(scene, project="prod-inference")
        through = Target(host=url.hostname or "127.0.0.1", port=url.port or 80, key=key)
        return uvloop.run(_measure_all(bare, through))


def _start(scene: Scene) -> Target:
    serving.submit(
        scene,
        MODEL,
        project="prod-inference",
        mgpu=100,
        replicas=(1, 1),
        scaling=serving.scaling_by(Metric.CONCURRENCY, 1000),
        more=("--token-seconds", "0"),
    )
    found = settle(
        scene.processes, until=lambda seen: seen.of(MODEL) is not None, within_s=READY_WITHIN_S
    )
    process = found.of(MODEL)
    if process is None:
        raise NeverAnswered("the replica did not come up")
    return Target(host="127.0.0.1", port=process.port)


async def _measure_all(bare: Target, through: Target) -> list[Row]:
    await _wait_for(bare)
    await _wait_for(through)
    pids = [_listener(target.port) for target in (bare, through)]
    rows: list[Row] = []
    for callers, tokens, requests in LOADS:
        alone_runs: list[Figures] = []
        gateway_runs: list[Figures] = []
        for _ in range(ROUNDS):  # in turn, so that both meet the same machine
            for target, runs in ((bare, alone_runs), (through, gateway_runs)):
                runs.append(await _measure(target, callers, tokens, requests, pids))
        rows += _rows(callers, tokens, _middle(alone_runs), _middle(gateway_runs))
    return rows


def _listener(port: int) -> psutil.Process:
    """Return the process of this machine that listens on a port."""
    for found in psutil.net_connections(kind="tcp"):
        if found.status != psutil.CONN_LISTEN or not found.laddr or found.pid is None:
            continue
        if found.laddr.port == port:
            return psutil.Process(found.pid)
    raise NeverAnswered(f"no process listens on port {port}")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _wait_for(target: Target) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    upstream = Upstream()
    while True:
        try:
            await _ask(upstream, target, 1)
            break
        except (NeverAnswered, Refused, Broken) as error:
            if time.monotonic() > deadline:
                raise NeverAnswered(str(error)) from error
            await asyncio.sleep(0.2)
    upstream.close()


async def _measure(
    target: Target, callers: int, tokens: int, requests: int, pids: list[psutil.Process]
) -> Figures:
    upstream = Upstream()
    took: list[float] = []

    async def call(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            await _ask(upstream, target, tokens)
            took.append(time.perf_counter() - began)

    processes = [psutil.Process(), *pids]
    before = [_cpu_s(process) for process in processes]
    began = time.perf_counter()
    await asyncio.gather(*(call(requests // callers) for _ in range(callers)))
    passed_s = time.perf_counter() - began
    used = [
        (_cpu_s(process) - was) * 1e6 / len(took)
        for process, was in zip(processes, before, strict=True)
    ]
    upstream.close()
    return Figures(
        median_ms=statistics.median(took) * 1000,
        per_s=len(took) / passed_s,
        callers_us=used[0],
        replica_us=used[1],
        gateway_us=used[2],
    )


async def _ask(upstream: Upstream, target: Target, tokens: int) -> None:
    body = json.dumps(
        {
            "model": MODEL,
            "stream": True,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": "hi"}],
        }
    ).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if target.key:
        headers.append((b"authorization", b"Bearer " + target.key.encode()))
    host = f"{target.host}:{target.port}"
    connection = await upstream.connect(target.host, target.port)
    head = head_of(method="POST", target=b"/v1/chat/completions", host=host, headers=headers)
    connection.begin(b"POST", head + body)
    await connection.wait_for_head()
    while await connection.read():
        pass
    upstream.give_back(target.host, target.port, connection)
    if connection.status != 200:
        raise NeverAnswered(f"{host} answered {connection.status}")


def _middle(runs: list[Figures]) -> Figures:
    names = Figures.__slots__
    return Figures(
        **{name: statistics.median(getattr(run, name) for run in runs) for name in names}
    )


def _rows(callers: int, tokens: int, bare: Figures, through: Figures) -> list[Row]:
    added_ms = through.median_ms - bare.median_ms
    percent = 100 * through.per_s / bare.per_s
    one, many = callers == 1, callers == LOADS[-1][0]
    at = f"{callers} at once" + (f", {tokens} tokens" if tokens > 1 else "")
    return [
        Row(what=f"{at}: bare replica, median", value=bare.median_ms, unit="ms"),
        Row(what=f"{at}: through the gateway, median", value=through.median_ms, unit="ms"),
        Row(
            what=f"{at}: added by the gateway",
            value=added_ms,
            unit="ms",
            goal=f"<= {ADDED_GOAL_MS:g}" if one else "",
            passed=added_ms <= ADDED_GOAL_MS if one else None,
        ),
        Row(what=f"{at}: bare replica", value=bare.per_s, unit="requests/s"),
        Row(what=f"{at}: through the gateway", value=through.per_s, unit="requests/s"),
        Row(
            what=f"{at}: rate against the bare replica",
            value=percent,
            unit="%",
            goal=f">= {RATE_GOAL_PERCENT}" if many else "",
            passed=percent >= RATE_GOAL_PERCENT if many else None,
        ),
        Row(what=f"{at}: CPU a request, bare replica", value=bare.replica_us, unit="us"),
        Row(what=f"{at}: CPU a request, replica", value=through.replica_us, unit="us"),
        Row(what=f"{at}: CPU a request, gateway", value=through.gateway_us, unit="us"),
        Row(what=f"{at}: CPU a request, callers", value=through.callers_us, unit="us"),
    ]
