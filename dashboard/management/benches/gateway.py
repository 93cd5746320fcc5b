"""``bench gateway``: goal 14. What the gateway adds to a replica's latency and takes of its rate.

One replica of the example inference server runs on a scratch card of the running product. The same
streamed chat, of one token, is asked of the bare replica and through the gateway, in turn, by 1, 16
and 128 callers at once.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.upstream import Broken, Refused, Upstream, head_of
from scheduler.core.autoscale import Metric
from scheduler.management.benches.table import Row
from scheduler.management.verify import serving
from scheduler.management.verify.layout import CARD, article_units
from scheduler.management.verify.readers import settle
from scheduler.management.verify.registry import alone
from scheduler.management.verify.scene import Scene, open_scene
from scheduler.management.verify.stage import find_address

ABOUT = "the gateway against the bare replica, one token streamed (goal 14)"
CALLERS = (1, 16, 128)
REQUESTS = {1: 200, 16: 800, 128: 1280}
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
    """The middle of the latencies and the rate of one run."""

    median_ms: float
    per_s: float


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
        return asyncio.run(_measure_all(bare, through))


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
    rows: list[Row] = []
    for callers in CALLERS:
        alone_runs, gateway_runs = [], []
        for _ in range(ROUNDS):  # in turn, so that both meet the same machine
            alone_runs.append(await _measure(bare, callers))
            gateway_runs.append(await _measure(through, callers))
        rows += _rows(callers, _middle(alone_runs), _middle(gateway_runs))
    return rows


async def _wait_for(target: Target) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    upstream = Upstream()
    while True:
        try:
            await _ask(upstream, target)
            break
        except (NeverAnswered, Refused, Broken) as error:
            if time.monotonic() > deadline:
                raise NeverAnswered(str(error)) from error
            await asyncio.sleep(0.2)
    upstream.close()


async def _measure(target: Target, callers: int) -> Figures:
    upstream = Upstream()
    took: list[float] = []

    async def call(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            await _ask(upstream, target)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(call(REQUESTS[callers] // callers) for _ in range(callers)))
    passed_s = time.perf_counter() - began
    upstream.close()
    return Figures(median_ms=statistics.median(took) * 1000, per_s=len(took) / passed_s)


async def _ask(upstream: Upstream, target: Target) -> None:
    body = json.dumps(
        {
            "model": MODEL,
            "stream": True,
            "max_tokens": 1,
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
    return Figures(
        median_ms=statistics.median(run.median_ms for run in runs),
        per_s=statistics.median(run.per_s for run in runs),
    )


def _rows(callers: int, bare: Figures, through: Figures) -> list[Row]:
    added_ms = through.median_ms - bare.median_ms
    percent = 100 * through.per_s / bare.per_s
    one, most = callers == CALLERS[0], callers == CALLERS[-1]
    at = f"{callers} at once"
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
            goal=f">= {RATE_GOAL_PERCENT}" if most else "",
            passed=percent >= RATE_GOAL_PERCENT if most else None,
        ),
    ]
