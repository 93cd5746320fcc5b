"""The gateway's way to the database: reads and writes in threads of their own, each with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, connection

Result = TypeVar("Result")

TIMEOUT_S = 10


class StoreAway(Exception):
    """The database did not answer."""


class Store:
    """One thread that reads and one that writes, so that a slow write holds up no request."""

    def __init__(self) -> None:
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gateway-read")
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gateway-write")

    async def read(self, query: Callable[[], Result]) -> Result:
        """Return what a query returns.

        Raises:
            StoreAway: it failed or took too long.
        """
        return await _run(self._reader, query)

    async def write(self, operation: Callable[[], Result]) -> Result:
        """Run an operation.

        Raises:
            StoreAway: it failed or took too long.
        """
        return await _run(self._writer, operation)

    def close(self) -> None:
        """Close both threads with their connections."""
        for pool in (self._reader, self._writer):
            pool.submit(connection.close)
            pool.shutdown(wait=True)


async def _run(pool: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await loop.run_in_executor(pool, _guarded, call)
    except (DatabaseError, TimeoutError) as error:
        raise StoreAway(str(error)) from error


def _guarded(call: Callable[[], Result]) -> Result:
    """Run in a thread; after an error its connection is made anew for the next call."""
    try:
        return call()
    except DatabaseError:
        connection.close()
        raise
