"""One gateway process: its desks, and what it does beside serving: routes, demand, usage, gauges."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import redis
import redis.asyncio
from django.db import transaction

from gateway import gauges
from gateway.desk import Desk, now_us
from gateway.forward import Forwarder
from gateway.keys import KeyRing, may_use
from gateway.slots import Slots
from gateway.store import Store, StoreAway
from gateway.upstream import Upstream
from gateway.usage import LatencyBook, UsageBook
from scheduler import events
from scheduler.core.autoscale import SECOND_US, Bucket
from scheduler.host import identity
from scheduler.operations import gateway_keys, service_latencies
from scheduler.queries import routes
from scheduler.queries.visibility import SYSTEM
from scheduler.telemetry import demand

log = logging.getLogger(__name__)

FLUSH_S = 0.25
USAGE_S = 1.0
ROUTES_S = 1.0
#: Word of a change comes after every pass of the tick; routes are not read more often than this.
ROUTES_LEAST_S = 0.05
GAUGES_S = 1.0
RECONNECT_S = 1.0
#: After which a task that was cancelled and goes on is cancelled once more.
CANCEL_AGAIN_S = 1.0
#: New objects after which the garbage collector looks at the youngest; its turns until older ones.
COLLECT_AFTER = (20_000, 20, 50)
REDIS_TIMEOUT_S = 2.0


class Runtime:
    """Everything that a gateway process holds. Begins with ``start`` and ends with ``stop``."""

    def __init__(self, *, redis_url: str) -> None:
        own = identity.find_identity(os.getpid())
        start = own.start_ticks if own else time.time_ns()
        self.gateway_id = f"{socket.gethostname()}|{os.getpid()}|{start}"
        self.client = redis.asyncio.Redis.from_url(
            redis_url,
            socket_timeout=REDIS_TIMEOUT_S,
            socket_connect_timeout=REDIS_TIMEOUT_S,
            max_connections=500,
        )
        # Waits for messages without end.
        self._listener = redis.asyncio.Redis.from_url(
            redis_url, socket_timeout=None, socket_connect_timeout=REDIS_TIMEOUT_S
        )
        self.store = Store()
        self.keys = KeyRing(store=self.store, client=self.client)
        self.upstream = Upstream()
        self.book = UsageBook()
        self.latencies = LatencyBook()
        self.forwarder = Forwarder(upstream=self.upstream, book=self.book, latencies=self.latencies)
        self.desks: dict[int, Desk] = {}
        self.slots = Slots(client=self.client, gateway_id=self.gateway_id)
        self._tasks: list[asyncio.Task[None]] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._routes_wanted = asyncio.Event()
        self._first_routes = asyncio.Event()
        self._covered_to_s = now_us() // SECOND_US
        self._unsent: list[tuple[int, int, Bucket]] = []
        self._unsent_seconds: list[int] = []
        self._flushing = asyncio.Lock()

    async def start(self) -> None:
        """Begin the work beside serving."""
        _spare_the_collector()
        work: list[Callable[[], Awaitable[None]]] = [
            self._keep_routes,
            self._listen,
            self._keep_demand,
            self._keep_usage,
            self._keep_gauges,
        ]
        for each in work:
            self._tasks.append(asyncio.create_task(_forever(each)))
        await self._forget_the_dead()

    async def stop(self) -> None:
        """Hand on what is counted, give the leases back and end."""
        await _end(self._tasks)
        await asyncio.gather(*self._errands, return_exceptions=True)
        for desk in self.desks.values():
            desk.close()
        await self._write_usage()
        try:
            await self._flush()
            await demand.leave(client=self.client, gateway_id=self.gateway_id)
        except (redis.RedisError, OSError):
            log.warning("gateway.leave.failed", exc_info=True)
        self.forwarder.close()
        self.upstream.close()
        await self.client.aclose()
        await self._listener.aclose()
        await asyncio.to_thread(self.store.close)

    @property
    def is_ready(self) -> bool:
        """Test whether the routes were read once."""
        return self._first_routes.is_set()

    async def ready(self) -> None:
        """Wait until the routes were read once."""
        await self._first_routes.wait()

    def desks_for(self, key: routes.KeyFacts) -> Iterable[Desk]:
        """Return the desks of the services that a key's scope covers."""
        return [desk for desk in self.desks.values() if may_use(facts=key, route=desk.route)]

    def wake(self, workload_id: int) -> None:
        """Say at once that somebody waits at a service that has no replica."""
        errand = asyncio.create_task(self._wake(workload_id))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    # -- routes ----------------------------------------------------------------------------------

    async def read_routes(self) -> None:
        """Take in the services and their replicas as they are now."""
        table = await self.store.read(
            lambda: routes.list_routes(visible=SYSTEM, now=datetime.now(tz=UTC))
        )
        for route in table:
            desk = self.desks.get(route.workload_id)
            if desk is None:
                self.desks[route.workload_id] = Desk(route=route, slots=self.slots, wake=self.wake)
            else:
                desk.update(route)
        present = {route.workload_id for route in table}
        for workload_id in [each for each in self.desks if each not in present]:
            self._retire(workload_id)
        self._first_routes.set()

    def _retire(self, workload_id: int) -> None:
        """Drop the desk of a service that is offered no longer, once nobody is there."""
        desk = self.desks[workload_id]
        desk.update(_withdrawn(desk.route))
        if not desk.in_flight and not desk.waiting:
            desk.close()
            del self.desks[workload_id]

    async def _keep_routes(self) -> None:
        try:
            await self.read_routes()
        except StoreAway:
            log.warning("gateway.routes.away", exc_info=True)
        await asyncio.sleep(ROUTES_LEAST_S)
        try:
            async with asyncio.timeout(ROUTES_S):
                await self._routes_wanted.wait()
        except TimeoutError:
            pass
        self._routes_wanted.clear()

    async def _listen(self) -> None:
        """Read the routes again when word of a change comes. The timer alone would do, later."""
        try:
            async with self._listener.pubsub() as channel:
                await channel.subscribe(events.CHANGED_CHANNEL)
                async for message in channel.listen():
                    if message["type"] == "message":
                        self._routes_wanted.set()
        except (redis.RedisError, OSError):
            log.warning("gateway.listen.away", exc_info=True)
            await asyncio.sleep(RECONNECT_S)

    # -- demand ----------------------------------------------------------------------------------

    async def _keep_demand(self) -> None:
        try:
            await self._flush()
            others = await demand.read_replicas(client=self.client, but=self.gateway_id)
            for desk in self.desks.values():
                desk.elsewhere = others
        except (redis.RedisError, OSError):
            log.warning("gateway.demand.away", exc_info=True)
            await asyncio.sleep(RECONNECT_S)
        self.upstream.sweep()
        await asyncio.sleep(FLUSH_S)

    async def _flush(self) -> None:
        """Write the lease, and the seconds that have passed; what can't be written waits."""
        async with self._flushing:
            at_us = now_us()
            self._collect(at_us)
            report = demand.Report(
                gateway_id=self.gateway_id,
                services={
                    workload_id: demand.Counts(
                        in_flight=sum(desk.in_flight.values()), waiting=desk.waiting
                    )
                    for workload_id, desk in self.desks.items()
                },
                replicas={
                    replica_id: count
                    for desk in self.desks.values()
                    for replica_id, count in desk.in_flight.items()
                },
                buckets=self._unsent,
                covered=self._unsent_seconds,
                slots=[(replica_id, member) for member, replica_id in self.slots.held.items()],
            )
            await demand.write(client=self.client, report=report, now_s=at_us // SECOND_US)
            self._unsent, self._unsent_seconds = [], []

    def _collect(self, at_us: int) -> None:
        now_s = at_us // SECOND_US
        for workload_id, desk in self.desks.items():
            for second, bucket in desk.demand.take(now_us=at_us):
                self._unsent.append((workload_id, second, bucket))
        self._unsent_seconds.extend(range(self._covered_to_s, now_s))
        self._covered_to_s = max(now_s, self._covered_to_s)
        oldest_s = now_s - demand.KEPT_S
        if self._unsent_seconds and self._unsent_seconds[0] < oldest_s:
            self._unsent_seconds = [each for each in self._unsent_seconds if each >= oldest_s]
            self._unsent = [each for each in self._unsent if each[1] >= oldest_s]

    async def _wake(self, workload_id: int) -> None:
        try:
            await self._flush()
            await self.client.incr(events.WAKE_KEY)
        except (redis.RedisError, OSError):
            log.warning("gateway.wake.failed", extra={"workload_id": workload_id}, exc_info=True)

    async def _forget_the_dead(self) -> None:
        """Take away at once the counts of gateway processes of this machine that have ended."""
        try:
            dropped = await demand.drop_dead(client=self.client, is_dead=_is_dead)
        except (redis.RedisError, OSError):
            log.warning("gateway.demand.away", exc_info=True)
            return
        if dropped:
            log.info("gateway.dead.forgotten", extra={"gateways": dropped})

    # -- usage and gauges ------------------------------------------------------------------------

    async def _keep_usage(self) -> None:
        await asyncio.sleep(USAGE_S)
        await self._write_usage()

    async def _write_usage(self) -> None:
        uses, rows = self.book.take(), self.latencies.take()
        if not uses and not rows:
            return
        try:
            await self.store.write(lambda: _record(uses, rows))
        except StoreAway:
            log.warning("gateway.usage.away", exc_info=True)
            self.book.put_back(uses)
            self.latencies.put_back(rows)

    async def _keep_gauges(self) -> None:
        await asyncio.sleep(GAUGES_S)
        wanted = [desk for desk in self.desks.values() if desk.route.gauge_name]
        await asyncio.gather(*(self._read_gauges(desk) for desk in wanted))

    async def _read_gauges(self, desk: Desk) -> None:
        route = desk.route
        for endpoint in route.endpoints:
            value_milli = await gauges.read_gauge(
                upstream=self.upstream,
                endpoint=endpoint,
                path=route.gauge_path,
                name=route.gauge_name,
            )
            if value_milli is not None:
                desk.demand.read_gauge(value_milli, now_us=now_us())


@transaction.atomic
def _record(uses: Sequence[gateway_keys.Use], rows: Sequence[service_latencies.Latencies]) -> None:
    gateway_keys.record_use(uses=uses)
    service_latencies.record_latencies(rows=rows)


async def _forever(work: Callable[[], Awaitable[None]]) -> None:
    """Do a piece of work again and again. What it did not expect is logged and ends one turn only."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("gateway.work.failed", extra={"work": getattr(work, "__name__", "")})
            await asyncio.sleep(RECONNECT_S)


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: a library that waits may swallow a single cancellation."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _ended, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


def _spare_the_collector() -> None:
    """Let the garbage collector pass over what stays, and look less often: a fifth of a request's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _withdrawn(route: routes.Route) -> routes.Route:
    return replace(route, endpoints=(), failed=True, why="The service was stopped.")


def _is_dead(gateway_id: str) -> bool:
    """Test whether a gateway ran on this machine and its process is gone."""
    host, pid, start = gateway_id.split("|")
    if host != socket.gethostname():
        return False
    found = identity.find_identity(int(pid))
    return found is None or str(found.start_ticks) != start
