"""Demand of services, through Redis: gateway processes write it, the tick reads it.

What a gateway has in its hands now is a lease: one hash for each process, which Redis drops a few
seconds after its process last wrote it. What was, second by second, is a stream for each service and
stays. A second in which no gateway wrote is unknown, and unknown is not zero. No Django here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import redis
import redis.asyncio

from scheduler.core.autoscale import Bucket, join_buckets

GATEWAYS_KEY = "tidegate:gateways"
COVERED_KEY = "tidegate:demand:covered"
#: How long the counts of a gateway that says nothing are believed.
LEASE_MS = 3_000
#: How long recorded demand is kept: the longest stable window and some.
KEPT_S = 4_000

#: Takes one of the replicas whose slots are KEYS, the one with the fewest taken, if it has fewer than
#: ARGV[2]; the slot is a lease of ARGV[3] milliseconds for the member ARGV[1]. Returns its number or 0.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local best, least = 0, tonumber(ARGV[2])
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local taken = redis.call('ZCARD', key)
  if taken < least then best, least = i, taken end
end
if best > 0 then
  redis.call('ZADD', KEYS[best], now + ARGV[3], ARGV[1])
  redis.call('PEXPIRE', KEYS[best], ARGV[3] * 4)
end
return best
"""

#: Prolongs the slots of the members ARGV[2..] at KEYS by ARGV[1] milliseconds, those that still exist.
_RENEW = """
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, 'XX', until_ms, ARGV[i + 1])
  redis.call('PEXPIRE', key, ARGV[1] * 4)
end
return 0
"""


def lease_key(gateway_id: str) -> str:
    """Return the key of what one gateway has in its hands."""
    return f"tidegate:gateway:{gateway_id}"


def stream_key(workload_id: int) -> str:
    """Return the key of a service's recorded seconds."""
    return f"tidegate:demand:{workload_id}"


def slots_key(replica_id: int) -> str:
    """Return the key of the slots taken at a replica with a hard limit."""
    return f"tidegate:slots:{replica_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Requests of one service: those at a replica, and those that wait for one."""

    in_flight: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one gateway process says: its counts now, and the seconds that have passed."""

    gateway_id: str
    services: Mapping[int, Counts]
    #: Requests in flight by replica.
    replicas: Mapping[int, int]
    #: (workload, second, demand) of whole seconds, and all whole seconds since the last report.
    buckets: Sequence[tuple[int, int, Bucket]] = ()
    covered: Sequence[int] = ()
    #: (replica, member) of slots that are still held.
    slots: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What all gateways said."""

    #: By workload, then by second.
    buckets: Mapping[int, Mapping[int, Bucket]] = field(default_factory=dict)
    covered: frozenset[int] = frozenset()
    services: Mapping[int, Counts] = field(default_factory=dict)
    replicas: Mapping[int, int] = field(default_factory=dict)
    #: Gateway processes whose lease holds.
    gateways: int = 0


# --- Gateways write -------------------------------------------------------------------------------


async def write(*, client: redis.asyncio.Redis, report: Report, now_s: int) -> None:
    """Replace the process's lease, add the seconds that passed, prolong its slots. One round trip."""
    key = lease_key(report.gateway_id)
    pipe = client.pipeline(transaction=True)
    pipe.delete(key)
    pipe.hset(key, mapping=cast("Any", _lease_of(report)))
    pipe.pexpire(key, LEASE_MS)
    pipe.zadd(GATEWAYS_KEY, {report.gateway_id: now_s})
    pipe.zremrangebyscore(GATEWAYS_KEY, "-inf", now_s - 600)
    if report.covered:
        pipe.zadd(COVERED_KEY, {str(second): second for second in report.covered})
        pipe.zremrangebyscore(COVERED_KEY, "-inf", now_s - KEPT_S)
    for workload_id, second, bucket in report.buckets:
        stream = stream_key(workload_id)
        pipe.xadd(
            stream, cast("Any", _fields_of(second, bucket)), maxlen=KEPT_S * 2, approximate=True
        )
        pipe.expire(stream, KEPT_S)
    if report.slots:
        keys = [slots_key(replica_id) for replica_id, _ in report.slots]
        members = [member for _, member in report.slots]
        pipe.eval(_RENEW, len(keys), *keys, str(LEASE_MS), *members)
    await pipe.execute()


async def take_slot(
    *, client: redis.asyncio.Redis, replica_ids: Sequence[int], member: str, limit: int
) -> int | None:
    """Take a slot at the replica with the fewest taken, or return None where all are full."""
    keys = [slots_key(replica_id) for replica_id in replica_ids]
    answer = client.eval(_TAKE, len(keys), *keys, member, str(limit), str(LEASE_MS))
    chosen = int(await answer)
    return replica_ids[chosen - 1] if chosen else None


async def free_slot(*, client: redis.asyncio.Redis, replica_id: int, member: str) -> None:
    """Give a slot back. Twice does no harm."""
    await client.zrem(slots_key(replica_id), member)


async def leave(*, client: redis.asyncio.Redis, gateway_id: str) -> None:
    """Take a process's counts away: it ends, or it is known to have ended."""
    held = await cast("Awaitable[dict[bytes, bytes]]", client.hgetall(lease_key(gateway_id)))
    pipe = client.pipeline(transaction=True)
    pipe.delete(lease_key(gateway_id))
    pipe.zrem(GATEWAYS_KEY, gateway_id)
    await pipe.execute()
    for name in held:
        kind, _, number = name.decode().partition(":")
        if kind == "replica":
            await _free_slots_of(client, int(number), gateway_id)


async def _free_slots_of(client: redis.asyncio.Redis, replica_id: int, gateway_id: str) -> None:
    members = cast("list[bytes]", await client.zrange(slots_key(replica_id), 0, -1))
    own = [member for member in members if member.startswith(f"{gateway_id}/".encode())]
    if own:
        await client.zrem(slots_key(replica_id), *own)


async def list_gateways(*, client: redis.asyncio.Redis) -> list[str]:
    """Return the gateways that were heard of in the last minutes, alive or not."""
    known = cast("list[bytes]", await client.zrange(GATEWAYS_KEY, 0, -1))
    return [name.decode() for name in known]


async def drop_dead(*, client: redis.asyncio.Redis, is_dead: Callable[[str], bool]) -> list[str]:
    """Take the counts of processes that are known to be dead away at once."""
    dead = [name for name in await list_gateways(client=client) if is_dead(name)]
    for name in dead:
        await leave(client=client, gateway_id=name)
    return dead


async def read_replicas(*, client: redis.asyncio.Redis, but: str) -> dict[int, int]:
    """Return the requests in flight by replica at all gateways other than ``but``."""
    names = [name for name in await list_gateways(client=client) if name != but]
    if not names:
        return {}
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(lease_key(name))
    _, replicas, _ = _join_leases(await pipe.execute())
    return replicas


# --- The tick reads -------------------------------------------------------------------------------


def read(*, client: redis.Redis, workload_ids: Sequence[int], window_s: int, now_s: int) -> Demand:
    """Return the demand of the last ``window_s`` seconds and what is in flight now. Two round trips."""
    from_s = now_s - window_s - 5
    pipe = client.pipeline(transaction=True)
    pipe.zrangebyscore(COVERED_KEY, from_s, "+inf")
    pipe.zrange(GATEWAYS_KEY, 0, -1)
    for workload_id in workload_ids:
        pipe.xrange(stream_key(workload_id), min=str(from_s * 1000))
    covered, names, *streams = pipe.execute()
    leases = _read_leases(client, names)
    services, replicas, gateways = _join_leases(leases)
    return Demand(
        buckets={
            workload_id: join_buckets(parts=[_bucket_of(fields) for _, fields in entries])
            for workload_id, entries in zip(workload_ids, streams, strict=True)
        },
        covered=frozenset(int(second) for second in covered),
        services=services,
        replicas=replicas,
        gateways=gateways,
    )


def _read_leases(client: redis.Redis, names: Iterable[bytes]) -> list[dict[bytes, bytes]]:
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(lease_key(name.decode()))
    return list(pipe.execute())


# --- How it is written ----------------------------------------------------------------------------


def _lease_of(report: Report) -> dict[str, str | int]:
    lease: dict[str, str | int] = {"gateway": report.gateway_id}
    for workload_id, counts in report.services.items():
        if counts.in_flight or counts.waiting:
            lease[f"service:{workload_id}"] = f"{counts.in_flight} {counts.waiting}"
    for replica_id, count in report.replicas.items():
        if count:
            lease[f"replica:{replica_id}"] = count
    return lease


def _join_leases(
    leases: Iterable[Mapping[bytes, bytes]],
) -> tuple[dict[int, Counts], dict[int, int], int]:
    services: dict[int, Counts] = {}
    replicas: dict[int, int] = {}
    gateways = 0
    for lease in leases:
        gateways += bool(lease)
        for name, value in lease.items():
            kind, _, number = name.decode().partition(":")
            if kind == "service":
                in_flight, waiting = (int(part) for part in value.split())
                known = services.get(int(number), Counts())
                services[int(number)] = Counts(
                    in_flight=known.in_flight + in_flight, waiting=known.waiting + waiting
                )
            elif kind == "replica":
                replicas[int(number)] = replicas.get(int(number), 0) + int(value)
    return services, replicas, gateways


def _fields_of(second: int, bucket: Bucket) -> dict[str, int]:
    fields = {
        "second": second,
        "request_us": bucket.request_us,
        "arrived": bucket.arrived,
        "finished": bucket.finished,
        "latency_us": bucket.latency_us,
        "gauge_milli": bucket.gauge_milli,
        "gauges": bucket.gauges,
    }
    return {name: value for name, value in fields.items() if value}


def _bucket_of(fields: Mapping[bytes, bytes]) -> tuple[int, Bucket]:
    known = {name.decode(): int(value) for name, value in fields.items()}
    return known.pop("second"), Bucket(**known)
