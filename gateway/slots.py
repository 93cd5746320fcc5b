"""Slots at replicas with a hard limit, shared by all gateway processes through Redis as leases."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence

import redis
import redis.asyncio

from scheduler.telemetry import demand

log = logging.getLogger(__name__)


class Slots:
    """Takes and gives back slots. While Redis is away this process goes by its own counts alone."""

    def __init__(self, *, client: redis.asyncio.Redis, gateway_id: str) -> None:
        self._client = client
        self._gateway_id = gateway_id
        self._numbers = itertools.count(1)
        #: Member to replica, of all that this process holds.
        self.held: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, replica_ids: Sequence[int], *, limit: int) -> tuple[int, str] | None:
        """Take a slot at the replica with the fewest taken; returns it with the slot's name."""
        member = f"{self._gateway_id}/{next(self._numbers)}"
        try:
            replica_id = await demand.take_slot(
                client=self._client, replica_ids=replica_ids, member=member, limit=limit
            )
        except (redis.RedisError, OSError):
            log.warning("gateway.slots.away", exc_info=True)
            replica_id = self._by_own_counts(replica_ids, limit)
        if replica_id is None:
            return None
        self.held[member] = replica_id
        return replica_id, member

    def free_soon(self, replica_id: int, member: str, *, then: Callable[[], None]) -> None:
        """Give a slot back, and call ``then`` when others may have it."""
        self.held.pop(member, None)
        task = asyncio.create_task(self._free(replica_id, member, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _free(self, replica_id: int, member: str, then: Callable[[], None]) -> None:
        """Give a slot back. If that fails its lease ends by itself."""
        try:
            await demand.free_slot(client=self._client, replica_id=replica_id, member=member)
        except (redis.RedisError, OSError):
            log.warning("gateway.slots.away", exc_info=True)
        then()

    def _by_own_counts(self, replica_ids: Sequence[int], limit: int) -> int | None:
        own = list(self.held.values())
        fewest = min(replica_ids, key=own.count, default=None)
        return fewest if fewest is not None and own.count(fewest) < limit else None
